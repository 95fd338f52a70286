package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
)

// H30: an active segment of which all is expired, or removed, goes; nothing else would end it for a week.
func TestH30_AnExpiredActiveSegmentGoes(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{Env: devDelays})
	for topic, configs := range map[string][]string{
		"expires": {"retention.ms", "1000"},
		"purged":  {"retention.ms", "-1"},
		"kept":    {"retention.ms", "9223372036854775807"},
	} {
		n.CreateTopic(t, topic, 1, append(configs, "segment.ms", "604800000", "remote.copy.max.delay.ms", "604800000")...)
		writeValues(t, n, topic, 10)
	}
	low, err := deleteRecords(t, n, "purged", -1)
	require.NoError(t, err)
	require.EqualValues(t, 10, low)
	for _, topic := range []string{"expires", "purged"} {
		harness.Until(t, time.Minute, topic+" has nothing left", func() error {
			p, err := n.Partition(topic, 0)
			if err != nil {
				return err
			}
			if start := n.Offset(t, topic, 0, harness.Start); start != 10 || p.LocalBytes > 0 {
				return fmt.Errorf("it starts at %d with %d bytes", start, p.LocalBytes)
			}
			return nil
		})
		writeValues(t, n, topic, 1)
		require.EqualValues(t, 11, n.Offset(t, topic, 0, harness.Latest))
	}
	require.Zero(t, n.Offset(t, "kept", 0, harness.Start), "a retention of 2^63-1 is no retention of nothing")
}

// P13: a record of a topic that is hardly written reaches the object tier after remote.copy.max.delay.ms, not segment.ms.
func TestP13_IdleRecordsReachTheTier(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{Env: devDelays})
	n.CreateTopic(t, "idle", 1, "segment.ms", "604800000", "remote.copy.max.delay.ms", "1000")
	writeValues(t, n, "idle", 1)
	tiered(t, n, "idle", 0)
	n.CreateTopic(t, "later", 1, "segment.ms", "604800000", "remote.copy.max.delay.ms", "604800000")
	writeValues(t, n, "later", 1)
	writeValues(t, n, "idle", 1)
	tiered(t, n, "idle", 1)
	require.EqualValues(t, -1, n.Offset(t, "later", 0, harness.LatestTiered))
}

// H32: below the start and above the end is out of range; at the end is not.
func TestH32_OutOfRangeIsBelowTheStartAndAboveTheEnd(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	n.CreateTopic(t, "r", 1)
	writeValues(t, n, "r", 10)
	_, err := deleteRecords(t, n, "r", 4)
	require.NoError(t, err)
	for offset, want := range map[int64]int16{3: kerr.OffsetOutOfRange.Code, 4: 0, 9: 0, 10: 0, 11: kerr.OffsetOutOfRange.Code, 1 << 40: kerr.OffsetOutOfRange.Code} {
		require.Equal(t, want, fetchOne(t, n, "r", offset, 10).ErrorCode, "offset %d", offset)
	}
}

// writeValues produces records with keys.
func writeValues(t *testing.T, n *harness.Node, topic string, count int) {
	t.Helper()
	c := n.Client(t, kgo.DefaultProduceTopic(topic))
	defer c.Close()
	for i := range count {
		require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i)}).FirstErr())
	}
}

// C14: all that was tiered at the tail of a compacted topic has gone; clients reach the end all the same.
func TestC14_ClientsReachACompactedEnd(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{Env: devDelays})
	n.CreateTopic(t, "tail", 1, "cleanup.policy", "compact", "segment.ms", "1000", "min.cleanable.dirty.ratio", "0.01",
		"delete.retention.ms", "0", "local.retention.bytes", "1")
	c := n.Client(t, kgo.DefaultProduceTopic("tail"))
	value := func(key string, v []byte) {
		require.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Key: []byte(key), Value: v}).FirstErr())
	}
	value("stays", []byte("1"))
	value("goes", []byte("1"))
	tiered(t, n, "tail", 1)
	value("goes", nil)
	tiered(t, n, "tail", 2)
	harness.Until(t, time.Minute, "the tombstone has gone", func() error {
		if got := n.Metric("tidemark_compaction_removed_tombstones_total"); got < 1 {
			return fmt.Errorf("%v tombstones were removed", got)
		}
		return nil
	})
	end := n.Offset(t, "tail", 0, harness.Latest)
	require.EqualValues(t, 3, end)
	p := fetchEventually(t, n, "tail", 2)
	require.Zero(t, p.ErrorCode)
	require.NotEmpty(t, p.RecordBatches, "the hole is answered with a batch")

	t.Run("franz-go", func(t *testing.T) {
		f := n.Client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"tail": {0: kgo.NewOffset().At(0)}}), kgo.KeepControlRecords())
		fetches := f.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		require.Equal(t, 1, fetches.NumRecords())
		value("new", []byte("1"))
		fetches = f.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		require.EqualValues(t, 3, fetches.Records()[0].Offset, "its position was the end")
	})
	t.Run("librdkafka", func(t *testing.T) {
		needs(t, "kcat", "-V")
		k := kcat{t, n}
		require.Equal(t, "0 stays\n3 new\n", k.run("", "-C", "-t", "tail", "-o", "beginning", "-e", "-q", "-f", "%o %k\n"))
		require.Equal(t, "3 new\n", k.run("", "-C", "-t", "tail", "-o", "2", "-e", "-q", "-f", "%o %k\n"))
	})
}
