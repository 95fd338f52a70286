package broker_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// client is a raw client of the node with the few requests that these tests make.
type client struct {
	*rawclient.Client
	t *testing.T
}

func dial(t *testing.T, n *brokertest.Node) client {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := rawclient.Dial(ctx, n.Addr)
	require.NoError(t, err)
	c.Timeout = 2 * time.Minute
	t.Cleanup(func() { _ = c.Close() })
	return client{c, t}
}

// ask sends a request and returns its answer.
func ask[R kmsg.Response](c client, req kmsg.Request) R {
	c.t.Helper()
	_, err := c.Send(req)
	require.NoError(c.t, err)
	resp, err := c.Recv()
	require.NoError(c.t, err)
	return resp.(R)
}

func (c client) create(name string, partitions int32, configs map[string]string) [16]byte {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 60_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	all := map[string]string{"retention.ms": "-1"} // some records are old
	maps.Copy(all, configs)
	for k, v := range all {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = k, kmsg.StringPtr(v)
		topic.Configs = append(topic.Configs, cfg)
	}
	req.Topics = append(req.Topics, topic)
	resp := ask[*kmsg.CreateTopicsResponse](c, req)
	require.Len(c.t, resp.Topics, 1)
	require.Zero(c.t, resp.Topics[0].ErrorCode, "%v", resp.Topics[0].ErrorMessage)
	return resp.Topics[0].TopicID
}

// produceRequest carries one batch for one partition.
func produceRequest(topic string, part int32, acks int16, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 60_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = part, batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (c client) produce(topic string, part int32, batch []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	return ask[*kmsg.ProduceResponse](c, produceRequest(topic, part, -1, batch)).Topics[0].Partitions[0]
}

// batchOf makes a batch of n records with the given codec.
func batchOf(n int, codec record.Codec, value string) []byte {
	b := record.NewBuilder(record.BuilderOptions{Codec: codec})
	for i := range n {
		b.Add(time.Now().UnixMilli()+int64(i), []byte("key"), []byte(value))
	}
	return b.Build()
}

func fetchRequest(version int16, topic string, id [16]byte, part int32, from int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = version, 500, 1, 50<<20
	req.SessionEpoch = -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = topic, id
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch = part, from, 1<<20, -1
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	return req
}

// Our own encoder writes what kmsg would, byte for byte, in every version, for small answers (one write)
// and large ones (sendfile), with records, without, and with errors (P1).
func TestP1_FetchAnswersAreByteForByteKmsg(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	id := c.create("bytes", 2, nil)
	require.Zero(t, c.produce("bytes", 0, batchOf(3, record.CodecNone, "small")).ErrorCode)
	require.Zero(t, c.produce("bytes", 1, batchOf(600, record.CodecNone, string(make([]byte, 1000)))).ErrorCode)

	for version := int16(4); version <= 18; version++ {
		for _, isolation := range []int8{0, 1} {
			req := fetchRequest(version, "bytes", id, 0, 0)
			req.IsolationLevel = isolation
			for _, part := range []int32{1, 7} {
				fp := req.Topics[0].Partitions[0]
				fp.Partition = part
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, fp)
			}
			_, err := c.Send(req)
			require.NoError(t, err)
			_, raw, err := c.RecvRaw()
			require.NoError(t, err)
			if version >= 12 {
				require.Zero(t, raw[0], "header tags")
				raw = raw[1:]
			}
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			require.NoError(t, resp.ReadFrom(raw))
			require.Equal(t, raw, resp.AppendTo(nil), "version %d, isolation %d", version, isolation)

			got := resp.Topics[0].Partitions
			require.Len(t, got, 3)
			require.NotEmpty(t, got[0].RecordBatches)
			require.Greater(t, len(got[1].RecordBatches), 500_000)
			require.NotZero(t, got[2].ErrorCode)
		}
	}
}

// A fetch that wants more than its limits let it have is answered with what fits, not after max_wait: batches rarely fill a
// limit to the byte, and consumers often want as many bytes as they take of a partition (H8).
func TestH8_AFetchThatIsFullIsDue(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	id := c.create("full", 2, nil)
	batch := batchOf(10, record.CodecNone, "some value that takes a little room")
	for range 5 {
		require.Zero(t, c.produce("full", 0, batch).ErrorCode)
	}
	require.Zero(t, c.produce("full", 1, batch).ErrorCode)
	size := int32(len(batch))
	for _, row := range []struct {
		name                     string
		minBytes, maxBytes, part int32
		from, batches            int64
	}{
		{"partition's limit", 2*size + 5, 50 << 20, 2*size + 5, 0, 3},
		{"request's limit", 1 << 30, 2*size + 5, 1 << 20, 0, 2},
		{"request's limit, of the second partition", 2*size + 5, 2*size - 1, 1 << 20, 40, 1},
		{"a batch larger than all limits", size, 10, 10, 0, 1},
	} {
		for _, session := range []int32{-1, 0} {
			t.Run(fmt.Sprint(row.name, ", session epoch ", session), func(t *testing.T) {
				req := fetchRequest(18, "full", id, 0, row.from)
				req.SessionEpoch = session
				req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(time.Hour.Milliseconds()), row.minBytes, row.maxBytes
				req.Topics[0].Partitions[0].PartitionMaxBytes = row.part
				second := req.Topics[0].Partitions[0]
				second.Partition, second.FetchOffset = 1, 0
				req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
				got := 0
				for _, p := range parts(ask[*kmsg.FetchResponse](c, req)) {
					require.Zero(t, p.ErrorCode)
					got += len(p.RecordBatches)
				}
				require.EqualValues(t, row.batches*int64(size), got)
			})
		}
	}
}
