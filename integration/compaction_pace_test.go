package integration

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
)

// A topic is compacted beside a producer at a steady rate, who is served meanwhile; how fast stands in the log. The size
// of DESIGN's goals is TIDEMARK_COMPACTED_MIB=1024.
func TestL9_CompactionBesideAProducer(t *testing.T) {
	span, err := time.ParseDuration(setting("TIDEMARK_COMPACTED_SPAN", "3s"))
	require.NoError(t, err)
	mib, err := strconv.Atoi(setting("TIDEMARK_COMPACTED_MIB", "64"))
	require.NoError(t, err)
	n := harness.Dev(t, harness.Options{Env: map[string]string{"TIDEMARK_FREE_DELAY": "1s", "TIDEMARK_GC_GRACE": "30s", "TIDEMARK_LOG_LEVEL": "info"}})
	// No share of new data is more than all of it: the pass begins when the setting is changed.
	n.CreateTopic(t, "big", 1, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "1", "segment.bytes", "16777216", "segment.ms", "1000")
	cl := n.Client(t, kgo.DefaultProduceTopic("big"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := make([]byte, 1000)
	records := mib << 10
	for i := range records {
		copy(value, fmt.Sprint(i))
		cl.Produce(t.Context(), &kgo.Record{Key: fmt.Appendf(nil, "key-%d", i%(records/8)), Value: slices.Clone(value)}, nil)
	}
	require.NoError(t, cl.Flush(within(t, 5*time.Minute)))
	harness.Until(t, 5*time.Minute, "all of it is tiered", func() error {
		if got := n.Offset(t, "big", 0, harness.LatestTiered); got != int64(records-1) {
			return fmt.Errorf("the last tiered offset is %d", got)
		}
		return nil
	})
	require.Zero(t, n.Metric("tidemark_compaction_passes_total"))

	n.CreateTopic(t, "hot", 1)
	pr := &paced{t: t, cl: n.Client(t, kgo.DefaultProduceTopic("hot"), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))}
	pr.measure(span / 3) // warm
	alone := pr.measure(span)
	n.AlterTopic(t, "big", "min.cleanable.dirty.ratio", "0.01")
	began := time.Now()
	var beside latencies
	for n.Metric("tidemark_compaction_passes_total") == 0 {
		require.Less(t, time.Since(began), 10*time.Minute, "the pass ends")
		beside = append(beside, pr.measure(500*time.Millisecond)...)
	}
	took := time.Since(began)
	slices.Sort(beside)
	t.Logf("produce alone p50 %v p99 %v; beside a compaction of %d MiB p50 %v p99 %v (%.2f times)", alone.at(0.5), alone.at(0.99), mib,
		beside.at(0.5), beside.at(0.99), float64(beside.at(0.99))/float64(alone.at(0.99)))
	t.Logf("the pass took %v, read %.0f MB and wrote %.0f MB", took.Round(time.Millisecond),
		n.Metric("tidemark_compaction_read_bytes_total")/1e6, n.Metric("tidemark_compaction_written_bytes_total")/1e6)
	require.Greater(t, n.Metric("tidemark_compaction_removed_records_total"), float64(records/2))
}
