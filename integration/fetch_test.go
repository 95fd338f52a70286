package integration

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/harness"
)

// fetchAt makes a Fetch v12 (topics by name, no session) for one partition.
func fetchAt(topic string, partition int32, offset int64, waitMS int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, -1, waitMS, 1, 50<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// fetched is the one partition of an answer.
func fetched(t *testing.T, resp *kmsg.FetchResponse) kmsg.FetchResponseTopicPartition {
	t.Helper()
	require.Zero(t, resp.ErrorCode)
	require.Len(t, resp.Topics, 1)
	require.Len(t, resp.Topics[0].Partitions, 1)
	return resp.Topics[0].Partitions[0]
}

// recordsOf decodes the batches of an answer; records below the asked offset are left in, as on the wire.
func recordsOf(t *testing.T, p kmsg.FetchResponseTopicPartition) []*kgo.Record {
	t.Helper()
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true, Offset: -1}, &p, kgo.DefaultDecompressor(), nil)
	require.NoError(t, got.Err)
	return got.Records
}

// fetchCode fetches once and gives the partition's error code and how many records came.
func fetchCode(t *testing.T, n *harness.Node, topic string, partition int32, offset int64) (code int16, records int) {
	t.Helper()
	c := n.Raw(t)
	defer c.Close()
	resp, err := c.Do(fetchAt(topic, partition, offset, 500))
	require.NoError(t, err)
	p := fetched(t, resp.(*kmsg.FetchResponse))
	if len(p.RecordBatches) == 0 {
		return p.ErrorCode, 0
	}
	return p.ErrorCode, len(recordsOf(t, p))
}
