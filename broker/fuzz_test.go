package broker_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// FuzzRequests sends frames to a whole broker that has data, one a connection. Each is answered or closes its
// connection; none panics.
func FuzzRequests(f *testing.F) {
	for _, frame := range requestSeeds() {
		f.Add(frame)
	}
	n := brokertest.Start(f, brokertest.Options{Env: []string{"TIDEMARK_LOG_LEVEL=error"}})
	f.Fuzz(func(t *testing.T, frame []byte) {
		c, err := net.Dial("tcp", n.Addr)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			return
		}
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("neither answered nor closed: %v", err)
		}
		require.Zero(t, panics(t, n), "a request panicked")
	})
}

// panics counts the connections that a panic has closed, and the requests that panicked while they waited.
func panics(t testing.TB, n *brokertest.Node) (sum float64) {
	families, err := n.Metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			reason := strings.Contains(family.GetName(), "panics")
			for _, l := range m.GetLabel() {
				reason = reason || l.GetName() == "reason" && l.GetValue() == "panic"
			}
			if reason {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// requestSeeds are each request of kmsg in its lowest and highest version, empty and with one of everything.
func requestSeeds() (frames [][]byte) {
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("fuzz"))
	add := func(req kmsg.Request, versions ...int16) {
		for _, v := range versions {
			req.SetVersion(v)
			frames = append(frames, format.AppendRequest(nil, req, 1)[4:])
		}
	}
	meta := kmsg.NewPtrMetadataRequest()
	meta.AllowAutoTopicCreation = true
	meta.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("seed")}}
	add(meta, 4, 12)
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if req := kmsg.RequestForKey(key); req != nil {
			add(req, 0, req.MaxVersion())
		}
	}
	b := record.NewBuilder(record.BuilderOptions{Codec: record.CodecZstd})
	b.Add(1_700_000_000_000, []byte("key"), []byte("value"))
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks = -1
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "seed", Partitions: []kmsg.ProduceRequestTopicPartition{{Records: b.Build()}}}}
	add(produce, 3, 7, 12)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes, fetch.SessionEpoch = 1<<20, 0
	part := kmsg.NewFetchRequestTopicPartition()
	part.PartitionMaxBytes = 1 << 20
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "seed", Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	add(fetch, 4, 12)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 10_000, 10_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	add(join, 3, 9)
	return frames
}
