package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// BenchmarkProduce is one connection with five requests in flight, each one batch of 64 KiB, acks=all, on one replica.
func BenchmarkProduce(b *testing.B) {
	n := brokertest.Start(b, brokertest.Options{})
	benchmarkProduce(b, n.Addr, 1)
}

func benchmarkProduce(b *testing.B, addr string, replicas int16) {
	c, err := rawclient.Dial(context.Background(), addr)
	require.NoError(b, err)
	defer c.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 10_000
	ct := kmsg.NewCreateTopicsRequestTopic()
	ct.Topic, ct.NumPartitions, ct.ReplicationFactor = "bench", 1, replicas
	create.Topics = append(create.Topics, ct)
	resp, err := c.Do(create)
	require.NoError(b, err)
	require.Zero(b, resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	c = (&writer{topic: "bench"}).leader([]string{addr})
	require.NotNil(b, c)
	defer c.Close()

	builder := record.NewBuilder(record.BuilderOptions{})
	for range 64 {
		builder.Add(time.Now().UnixMilli(), nil, make([]byte, 1000))
	}
	batch := builder.Build()
	require.Eventually(b, func() bool { // the leader pulls the new topic
		resp, err := c.Do(produceRequest("bench", 0, -1, batch))
		return err == nil && resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0
	}, time.Minute, 10*time.Millisecond)
	b.SetBytes(int64(len(batch)))
	const inFlight = 5
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for i := range b.N + inFlight {
		if i < b.N {
			_, err := c.Send(produceRequest("bench", 0, -1, batch))
			require.NoError(b, err)
		}
		if i >= inFlight {
			resp, err := c.Recv()
			require.NoError(b, err)
			require.Zero(b, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// BenchmarkProduceThreeReplicas is the same on a cluster of three brokers in one process.
func BenchmarkProduceThreeReplicas(b *testing.B) {
	c := brokertest.StartCluster(b, 3, brokertest.Options{})
	benchmarkProduce(b, c.Node(1).Addr, 3)
}
