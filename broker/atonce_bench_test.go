package broker_test

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// BenchmarkProduceAndConsume is one produce after another with a batch of 4 KiB for each of 16 partitions, beside a
// consumer that takes whatever there is. fetches/op is how many answers it was told them in; cpu-µs/op is of broker and
// clients together, and says more than ns/op on a machine that is not idle.
func BenchmarkProduceAndConsume(b *testing.B) {
	const partitions = 16
	n := brokertest.Start(b, brokertest.Options{})
	producer, err := rawclient.Dial(b.Context(), n.Addr)
	require.NoError(b, err)
	defer producer.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 10_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "bench", partitions, 1
	create.Topics = append(create.Topics, topic)
	_, err = producer.Do(create)
	require.NoError(b, err)

	builder := record.NewBuilder(record.BuilderOptions{})
	for range 4 {
		builder.Add(time.Now().UnixMilli(), nil, make([]byte, 1000))
	}
	batch := builder.Build()
	send := produceRequest("bench", 0, -1, batch)
	read := fetchRequest(12, "bench", [16]byte{}, 0, 0)
	for p := range int32(partitions - 1) {
		send.Topics[0].Partitions = append(send.Topics[0].Partitions, produceRequest("bench", p+1, -1, batch).Topics[0].Partitions...)
		read.Topics[0].Partitions = append(read.Topics[0].Partitions, fetchRequest(12, "bench", [16]byte{}, p+1, 0).Topics[0].Partitions...)
	}
	produce := func() int16 {
		resp, err := producer.Do(send)
		require.NoError(b, err)
		for _, p := range resp.(*kmsg.ProduceResponse).Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return p.ErrorCode
			}
		}
		return 0
	}
	require.Eventually(b, func() bool { return produce() == 0 }, time.Minute, 10*time.Millisecond)

	consumer, err := rawclient.Dial(b.Context(), n.Addr)
	require.NoError(b, err)
	fetches := 0
	var running sync.WaitGroup
	running.Go(func() {
		for {
			resp, err := consumer.Do(read)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			require.NoError(b, err)
			fetches++
			for _, p := range resp.(*kmsg.FetchResponse).Topics[0].Partitions {
				read.Topics[0].Partitions[p.Partition].FetchOffset = p.HighWatermark
			}
		}
	})
	b.SetBytes(int64(partitions * len(batch)))
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		require.Zero(b, produce())
	}
	used := cpuTime(b) - before
	require.NoError(b, consumer.Close())
	running.Wait()
	b.ReportMetric(float64(fetches)/float64(b.N), "fetches/op")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime is the processor time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
