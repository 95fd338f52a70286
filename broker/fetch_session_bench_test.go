package broker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// BenchmarkSessionFetch is one fetch of a session over the loopback that does not wait, and before it, where one of the
// partitions changes, one produce of one record.
func BenchmarkSessionFetch(b *testing.B) {
	for _, partitions := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			n := brokertest.Start(b, brokertest.Options{})
			c, err := rawclient.Dial(context.Background(), n.Addr)
			require.NoError(b, err)
			defer c.Close()
			do := func(r kmsg.Request) kmsg.Response {
				resp, err := c.Do(r)
				require.NoError(b, err)
				return resp
			}
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Version, create.TimeoutMillis = 7, 120_000
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = "bench", int32(partitions), 1
			create.Topics = append(create.Topics, t)
			made := do(create).(*kmsg.CreateTopicsResponse).Topics[0]
			require.Zero(b, made.ErrorCode)

			first := fetchRequest(17, "bench", made.TopicID, 0, 0)
			first.MaxWaitMillis, first.SessionEpoch = 0, 0
			for i := 1; i < partitions; i++ {
				p := first.Topics[0].Partitions[0]
				p.Partition = int32(i)
				first.Topics[0].Partitions = append(first.Topics[0].Partitions, p)
			}
			var resp *kmsg.FetchResponse
			require.Eventually(b, func() bool { // all of them are led
				first.SessionEpoch, first.SessionID = 0, 0
				resp = do(first).(*kmsg.FetchResponse)
				for _, t := range resp.Topics {
					for _, p := range t.Partitions {
						if p.ErrorCode != 0 {
							return false
						}
					}
				}
				return true
			}, 2*time.Minute, 100*time.Millisecond)
			next := fetchRequest(17, "", [16]byte{}, 0, 0)
			next.Topics, next.MaxWaitMillis, next.SessionID, next.SessionEpoch = nil, 0, resp.SessionID, 0
			fetch := func() *kmsg.FetchResponse {
				next.SessionEpoch++
				resp := do(next).(*kmsg.FetchResponse)
				require.Zero(b, resp.ErrorCode)
				return resp
			}
			b.Run("idle", func(b *testing.B) {
				for range b.N {
					require.Empty(b, fetch().Topics)
				}
			})
			b.Run("one moved", func(b *testing.B) {
				batch := batchOf(1, record.CodecNone, "x")
				const moving = 10
				move := func(i int) {
					part := int32(i % moving * (partitions / moving))
					produced := do(produceRequest("bench", part, 1, batch)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
					require.Zero(b, produced.ErrorCode)
					next.Topics = fetchRequest(17, "bench", made.TopicID, part, produced.BaseOffset).Topics
					require.Len(b, fetch().Topics, 1)
					next.Topics = fetchRequest(17, "bench", made.TopicID, part, produced.BaseOffset+1).Topics
					require.Empty(b, fetch().Topics)
					next.Topics = nil
				}
				for i := range moving { // the first write of a partition makes its files: not measured
					move(i)
				}
				b.ResetTimer()
				for i := range b.N {
					move(i)
				}
			})
		})
	}
}
