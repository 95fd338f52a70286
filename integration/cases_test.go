package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
)

// The topic that cases speak of: ten batches of one record make a segment, so segments are [0,9], [10,19], …

// batchBytes is the size of one such batch: 61 bytes of header, and a record of 1,000 bytes value.
const batchBytes = 61 + 1009

// tens makes the topic; configs are added.
func tens(t *testing.T, n *harness.Node, topic string, partitions int32, configs ...string) {
	t.Helper()
	n.CreateTopic(t, topic, partitions, append([]string{"segment.bytes", fmt.Sprint(10 * batchBytes), "retention.ms", "-1"}, configs...)...)
}

// tenTime is the timestamp of record i.
func tenTime(i int) time.Time {
	return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Second)
}

func tenValue(i int) string { return fmt.Sprintf("%-1000s", fmt.Sprintf("ten-%d", i)) }

// produceTens appends the records [from, to), each in a batch of its own, to partition 0.
func produceTens(t *testing.T, n *harness.Node, topic string, from, to int) {
	t.Helper()
	cl := n.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(0))
	defer cl.Close()
	for i := from; i < to; i++ {
		r, err := cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: topic, Value: []byte(tenValue(i)), Timestamp: tenTime(i)}).First()
		require.NoError(t, err)
		require.EqualValues(t, i, r.Offset)
	}
}

// readTens reads [from, to) of partition 0 and compares.
func readTens(t *testing.T, n *harness.Node, topic string, from, to int) {
	t.Helper()
	got, err := checker.Read(within(t, 2*time.Minute), n.Kafka, topic, 0, int64(from), int64(to))
	require.NoError(t, err)
	require.Len(t, got, to-from)
	for i, r := range got {
		require.EqualValues(t, from+i, r.Offset)
		require.Equal(t, tenValue(from+i), string(r.Value))
	}
}

// tiered waits until the object tier ends at an offset (inclusive, as ListOffsets -5 says it).
func tiered(t *testing.T, n *harness.Node, topic string, last int64) {
	t.Helper()
	harness.Until(t, 3*time.Minute, "the tier reaches "+fmt.Sprint(last), func() error {
		if got := n.Offset(t, topic, 0, harness.LatestTiered); got != last {
			return fmt.Errorf("last tiered offset is %d", got)
		}
		return nil
	})
}

// coldTens makes the topic with records [0, count) of which all but the active segment are in the object tier only,
// and an empty cache.
func coldTens(t *testing.T, n *harness.Node, topic string, count int) {
	t.Helper()
	tens(t, n, topic, 1, "local.retention.bytes", "1")
	produceTens(t, n, topic, 0, count)
	cold := int64((count - 1) / 10 * 10)
	awaitCold(t, n, topic, cold)
	n.Kill()
	n.DropCache()
	n.Start()
	awaitCold(t, n, topic, cold) // again: localStart moves before the files go (B6), so a kill may leave them, to be freed now
}

// deleteRecords moves start of partition 0 and gives the error and the new start.
func deleteRecords(t *testing.T, n *harness.Node, topic string, offset int64) (int64, error) {
	t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 60_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := n.Raw(t).Do(req)
	require.NoError(t, err)
	p := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	return p.LowWatermark, kerr.ErrorForCode(p.ErrorCode)
}

// fetchOne fetches once from partition 0 and gives the whole answer for it.
func fetchOne(t *testing.T, n *harness.Node, topic string, offset int64, waitMS int32) kmsg.FetchResponseTopicPartition {
	t.Helper()
	c := n.Raw(t)
	defer c.Close()
	resp, err := c.Do(fetchAt(topic, 0, offset, waitMS))
	require.NoError(t, err)
	return fetched(t, resp.(*kmsg.FetchResponse))
}

// fetchEventually repeats a fetch that may come back empty while cold data is on its way.
func fetchEventually(t *testing.T, n *harness.Node, topic string, offset int64) kmsg.FetchResponseTopicPartition {
	t.Helper()
	var p kmsg.FetchResponseTopicPartition
	harness.Until(t, time.Minute, fmt.Sprintf("a fetch at %d is answered", offset), func() error {
		p = fetchOne(t, n, topic, offset, 500)
		if p.ErrorCode == 0 && len(p.RecordBatches) == 0 {
			return fmt.Errorf("empty")
		}
		return nil
	})
	return p
}

// keysOf lists the bucket's keys of a topic id.
func keysOf(t *testing.T, stores harness.Stores, topicID string) (keys []string) {
	t.Helper()
	all, err := checker.Stored(t.Context(), stores.Bucket, "segments/")
	require.NoError(t, err)
	for key := range all {
		if strings.Contains(key, "/"+topicID+"/") {
			keys = append(keys, key)
		}
	}
	return keys
}

// topicID is a topic's id as keys have it.
func topicID(t *testing.T, n *harness.Node, topic string) string {
	t.Helper()
	got, err := n.Segments(topic, 0)
	require.NoError(t, err)
	require.NotEmpty(t, got)
	return strings.Split(got[0].Key, "/")[2]
}
