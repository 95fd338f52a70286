package partition_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// client connects to the broker.
func (n *node) client() *rawclient.Client {
	n.Helper()
	c, err := rawclient.Dial(context.Background(), n.addr)
	require.NoError(n, err)
	c.Timeout = 2 * patience
	n.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends one request on a connection of its own.
func ask[R kmsg.Response](n *node, version int16, req kmsg.Request) R {
	n.Helper()
	req.SetVersion(version)
	c := n.client()
	resp, err := c.Do(req)
	require.NoError(n, err)
	_ = c.Close()
	return resp.(R)
}

// batch holds values, one record each.
func batch(values ...string) []byte {
	b := record.NewBuilder(record.BuilderOptions{})
	for _, v := range values {
		b.Add(1000, nil, []byte(v))
	}
	return b.Build()
}

// values are v<from> .. v<to-1>.
func values(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint("v", i))
	}
	return out
}

// produce sends one batch and returns its answer.
func (n *node) produce(acks int16, timeout time.Duration, records []byte) kmsg.ProduceResponseTopicPartition {
	n.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, int32(timeout.Milliseconds())
	t := kmsg.NewProduceRequestTopic()
	t.Topic = n.topic.Name
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.ProduceResponse](n, 9, req).Topics[0].Partitions[0]
}

// write appends the values one batch each with acks=all and demands that they are acknowledged.
func (n *node) write(vs ...string) {
	n.Helper()
	for _, v := range vs {
		r := n.produce(partition.AcksAll, patience, batch(v))
		require.Zero(n, r.ErrorCode, "write %s", v)
	}
}

// scribble appends with acks=1 what nobody is promised.
func (n *node) scribble(vs ...string) {
	n.Helper()
	for _, v := range vs {
		require.Zero(n, n.produce(1, patience, batch(v)).ErrorCode)
	}
}

// fetch reads as a consumer, a replica or whoever change makes of it.
func (n *node) fetch(from record.Offset, change func(*kmsg.FetchRequest)) kmsg.FetchResponseTopicPartition {
	n.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = n.topic.ID
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = int64(from), 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	if change != nil {
		change(req)
	}
	resp := ask[*kmsg.FetchResponse](n, 17, req)
	require.Zero(n, resp.ErrorCode)
	require.Len(n, resp.Topics, 1)
	return resp.Topics[0].Partitions[0]
}

// consume reads everything from an offset to the high watermark, as "offset:value".
func (n *node) consume(from record.Offset) []string {
	n.Helper()
	var out []string
	deadline := time.Now().Add(patience)
	for {
		r := n.fetch(from, func(q *kmsg.FetchRequest) { q.MaxWaitMillis = 200 })
		require.Zero(n, r.ErrorCode, "fetch at %d", from)
		if int64(from) >= r.HighWatermark {
			return out
		}
		require.True(n, time.Now().Before(deadline), "fetch at %d below %d stays empty", from, r.HighWatermark)
		for rest := r.RecordBatches; len(rest) > 0; {
			b, after, err := record.Split(rest)
			require.NoError(n, err)
			h, err := record.ParseHeader(b)
			require.NoError(n, err)
			for rec, err := range record.Records(b, nil) {
				require.NoError(n, err)
				if rec.Offset >= from {
					out = append(out, fmt.Sprintf("%d:%s", rec.Offset, rec.Value))
				}
			}
			from, rest = max(from, h.NextOffset()), after
		}
	}
}

// numbered is what consume returns for values from first on.
func numbered(first int, vs []string) []string {
	var out []string
	for i, v := range vs {
		out = append(out, fmt.Sprintf("%d:%s", first+i, v))
	}
	return out
}
