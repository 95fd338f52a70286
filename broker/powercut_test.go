package broker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/broker/brokertest"
	"tidemark/hotlog"
	"tidemark/hotlog/disk/disktest"
	"tidemark/integration/checker"
)

// With flush.messages=1 the power may go at any write, fsync, rename or directory sync that a broker makes: what it had
// acknowledged is there when it comes back on another boot, and nothing torn or never sent is. TIDEMARK_SOAK_CUTS is
// how often.
func TestPowerCutsLoseNoAcknowledgedRecord(t *testing.T) {
	cuts := 20
	if v := os.Getenv("TIDEMARK_SOAK_CUTS"); v != "" {
		var err error
		cuts, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	for seed := range uint64(cuts) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			cutPower(t, rand.New(rand.NewPCG(seed, 17)))
		})
	}
}

func cutPower(t *testing.T, rnd *rand.Rand) {
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o755))
	fs := disktest.New(dir)
	n := brokertest.Start(t, brokertest.Options{Dir: dir, Disk: hotlog.DataDirOptions{FS: fs, BootID: func() string { return "before" }}})
	dial(t, n).create("cut", 2, map[string]string{
		"flush.messages": "1", "segment.bytes": strconv.Itoa(2000 + rnd.IntN(20_000)), "local.retention.bytes": "1",
	})
	left, after := dir+".cut", 1+rnd.IntN(800)
	var cut atomic.Bool
	first := 0
	fs.OnStep(func(step int) {
		if first == 0 {
			first = step
		}
		if step-first == after {
			cut.Store(true)
			if err := fs.Cut(rnd.IntN, left); err != nil {
				t.Error(err)
			}
		}
	})
	model := checker.NewLog()
	writeUntil(t, n.Addr, model, &cut)
	_ = n.Stop() // what becomes of the old life is nobody's business

	for _, kept := range []string{"catalog.db", "objects"} { // on other disks
		require.NoError(t, os.RemoveAll(filepath.Join(left, kept)))
		require.NoError(t, os.Rename(filepath.Join(dir, kept), filepath.Join(left, kept)))
	}
	n = brokertest.Start(t, brokertest.Options{Dir: left, Disk: hotlog.DataDirOptions{BootID: func() string { return "after" }}})
	readyz(t, n, "", true) // it leads what it has: a start goes on where its catalog is slow
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, model.Verify(ctx, n.Addr, "cut"))
	t.Logf("%d records were acknowledged before the cut, at step %d", model.Count(), after)
}

// writeUntil has four idempotent producers write until the power is cut; what is acknowledged after that moment does
// not count.
func writeUntil(t *testing.T, addr string, model *checker.Log, cut *atomic.Bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var producers sync.WaitGroup
	for p := range 4 {
		producers.Go(func() {
			cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Error(err)
				return
			}
			defer cl.Close()
			for i := 0; !cut.Load(); i++ {
				r := &kgo.Record{Topic: "cut", Partition: int32(i % 2), Value: fmt.Appendf(nil, "%d-%d-%0100d", p, i, i)}
				model.Sent(r)
				if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
					t.Errorf("producer %d, record %d: %v", p, i, err)
					return
				}
				if !cut.Load() {
					model.Acked(r)
				}
			}
		})
	}
	producers.Wait()
}
