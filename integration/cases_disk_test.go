package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// L1, H18: the bucket is away until the disk reaches its first mark: produce is refused with an error that clients
// retry, all else goes on, and when the bucket is back the disk empties and produce is accepted by itself. Then
// something else fills the disk to the last byte and the broker is killed: it starts, moves its data out and serves.
func TestL1_H18_FullDisk(t *testing.T) {
	t.Parallel()
	harness.OnSmallDisk(t, 128, func(disk string) {
		stores := harness.RealStores(t)
		n := harness.Serve(t, stores, harness.Options{Dir: filepath.Join(disk, "data")})
		n.CreateTopic(t, "full", 1, "segment.bytes", "1048576", "local.retention.bytes", "1", "retention.ms", "-1")
		reserved(t, n)
		stores.S3.Add(s3proxy.Rule{Match: putSegment, Status: 503, Code: "SlowDown"})
		model := checker.NewLog()
		cl := n.Client(t, kgo.RecordRetries(0), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
		require.ErrorIs(t, fill(t, cl, model), kerr.KafkaStorageError)
		free := harness.FreeOn(t, disk)
		t.Logf("produce is refused after %d records, %d KiB are free", model.Count(), free>>10)
		require.Greater(t, free, int64(128<<20/20), "the second mark is not reached by clients")
		harness.Holds(t, 2*time.Second, "nothing that is nowhere else is freed, and nothing is appended", func() error {
			if err := one(t, cl, model); !errors.Is(err, kerr.KafkaStorageError) {
				return fmt.Errorf("produce: %w", err)
			}
			return untieredIsLocal(n, "full")
		})
		require.NoError(t, model.Verify(within(t, time.Minute), n.Kafka, "full"), "all can be read meanwhile")

		stores.S3.Clear()
		accepted(t, cl, model)
		require.NoError(t, model.Verify(within(t, time.Minute), n.Kafka, "full"))

		fillDisk(t, disk)
		n.Kill()
		n.Start()
		require.NoError(t, model.Verify(within(t, time.Minute), n.Kafka, "full"))
		require.NoError(t, os.Remove(filepath.Join(disk, "foreign")))
		accepted(t, n.Client(t, kgo.RecordRetries(0)), model)
		require.NoError(t, model.Verify(within(t, time.Minute), n.Kafka, "full"))
		require.Zero(t, n.Term())
	})
}

// L1: the same for a broker whose catalog lies on the full disk too.
func TestL1_DevStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	harness.OnSmallDisk(t, 96, func(disk string) {
		n := harness.Dev(t, harness.Options{Dir: filepath.Join(disk, "data")})
		n.CreateTopic(t, "full", 1)
		model := checker.NewLog()
		require.NoError(t, one(t, n.Client(t), model))
		reserved(t, n)
		fillDisk(t, disk)
		n.Kill()
		n.Start()
		require.NoError(t, model.Verify(within(t, time.Minute), n.Kafka, "full"))
		require.Contains(t, n.Log(), "its reserve is given back")
		require.NoError(t, os.Remove(filepath.Join(disk, "foreign")))
		accepted(t, n.Client(t, kgo.RecordRetries(0)), model)
		reserved(t, n)
		require.Zero(t, n.Term())
	})
}

// one produces a record of 50 KB that does not compress.
func one(t *testing.T, cl *kgo.Client, model *checker.Log) error {
	value := make([]byte, 50_000)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	r := &kgo.Record{Topic: "full", Value: value}
	model.Sent(r)
	err := cl.ProduceSync(within(t, time.Minute), r).FirstErr()
	if err == nil {
		model.Acked(r)
	}
	return err
}

// fill produces until it is refused.
func fill(t *testing.T, cl *kgo.Client, model *checker.Log) error {
	for range 10_000 {
		if err := one(t, cl, model); err != nil {
			return err
		}
	}
	return nil
}

func accepted(t *testing.T, cl *kgo.Client, model *checker.Log) {
	t.Helper()
	harness.Until(t, time.Minute, "produce is accepted again", func() error { return one(t, cl, model) })
}

func reserved(t *testing.T, n *harness.Node) {
	t.Helper()
	harness.Until(t, time.Minute, "the reserve is made", func() error {
		_, err := os.Stat(filepath.Join(n.Dir, "reserve"))
		return err
	})
}

// fillDisk takes every byte that is left.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "foreign"))
	require.NoError(t, err)
	defer f.Close()
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		if _, err := f.Write(chunk); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			chunk = chunk[:len(chunk)/2]
		}
	}
}
