package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/harness"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// L1, H18: something else fills the disk of one broker of three to 2 MiB. Where it leads clients get an error that they
// retry, and what it holds can be read; where it follows it leaves the in-sync sets, and the others go on without it. When
// there is room again it is in sync everywhere and takes records, by itself.
func TestL1_H18_TheDiskOfOneOfThreeIsFull(t *testing.T) {
	harness.OnSmallDisk(t, 256, func(disk string) {
		const id = 1
		c := startCluster(t, options{
			env:  map[string]string{"TIDEMARK_REPLICA_LAG_MAX": "3s"},
			dirs: map[int]string{id: filepath.Join(disk, "data")},
		})
		c.create("full", 6, tiers...)
		w := c.work("full", 6, usual)
		w.flows(recovery, "a healthy cluster takes records")
		var led, followed []int32
		c.until(recovery, "the broker leads, and follows", func() error {
			if err := c.full("full"); err != nil {
				return err
			}
			ps, err := c.topic("full")
			led, followed = nil, nil
			for n, p := range ps {
				if p.Leader == id {
					led = append(led, n)
				} else {
					followed = append(followed, n)
				}
			}
			if err == nil && (len(led) == 0 || len(followed) == 0) {
				err = fmt.Errorf("it leads %v", led)
			}
			return err
		})
		w.h.Silence(time.Now())
		fillTo(t, disk, 2<<20)

		took := c.until(recovery, "it leaves the in-sync sets of the others", func() error {
			ps, err := c.topic("full")
			for _, n := range followed {
				if err == nil && slices.Contains(ps[n].ISR, id) {
					err = fmt.Errorf("partition %d: in sync %v", n, ps[n].ISR)
				}
			}
			return err
		})
		for _, n := range led {
			c.until(recovery, "its clients get an error that they retry", func() error { return c.refused(c.member(id), "full", n) })
		}
		from := time.Now()
		c.until(recovery, "the others' partitions take records", func() error {
			for _, n := range followed {
				if !w.h.LastAck(w.partition(n)).After(from) {
					return fmt.Errorf("full/%d acknowledged nothing", n)
				}
			}
			return nil
		})
		require.True(t, c.member(id).Alive())
		require.NoError(t, os.Remove(filepath.Join(disk, "foreign")))
		back := c.until(recovery, "it is in sync everywhere", func() error { return c.full("full") })
		w.flows(recovery, "its partitions take records again")
		t.Logf("it led %v; out of the others' in-sync sets after %v, in sync again %v after there was room; longest silence %.1f s",
			led, took.Round(time.Millisecond), back.Round(time.Millisecond), w.h.Silence(time.Now()).Seconds())
		require.Zero(t, c.member(id).restarts, "the broker ended")
		w.end()
	})
}

// refused produces to a partition at one broker and wants an error that clients retry; what it sends instead of that has no
// place in the history, so only what is refused may be sent.
func (c *cluster) refused(m *member, topic string, partition int32) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	conn, err := rawclient.Dial(ctx, m.Kafka)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	conn.Timeout = 5 * time.Second
	// Larger than the mark leaves room for, so that it is refused whatever is free.
	b := record.NewBuilder(record.BuilderOptions{})
	b.Add(time.Now().UnixMilli(), nil, make([]byte, 900<<10))
	req := produceRequest(topic, b.Build())
	req.Topics[0].Partitions[0].Partition = partition
	resp, err := conn.Do(req)
	if err != nil {
		return err
	}
	err = kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	require.Error(c.t, err, "a record is acknowledged by a broker whose disk is full")
	if !kerr.IsRetriable(err) {
		c.t.Fatalf("clients give up at %v", err)
	}
	if err != kerr.KafkaStorageError {
		return err
	}
	return nil
}

// fillTo leaves so many bytes free.
func fillTo(t *testing.T, dir string, free int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "foreign"))
	require.NoError(t, err)
	defer f.Close()
	for chunk := make([]byte, 256<<10); harness.FreeOn(t, dir) > free; {
		_, err := f.Write(chunk)
		require.NoError(t, err)
	}
}
