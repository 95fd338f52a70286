package broker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// writer is an idempotent producer on one partition, one record in flight: it follows the leader with a metadata
// back-off of 20 ms, and repeats what was not acknowledged with the same sequence.
type writer struct {
	c       *brokertest.Cluster
	topic   string
	part    int32
	acked   int
	count   atomic.Int64  // acked, for others
	silence time.Duration // the longest between two acknowledgements
	conn    *rawclient.Client
}

// leader connects to the partition's leader as any live broker knows it.
func (w *writer) leader(nodes []string) *rawclient.Client {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, i := range rand.Perm(len(nodes)) {
		c, err := rawclient.Dial(ctx, nodes[i])
		if err != nil {
			continue
		}
		c.Timeout = time.Second
		req := kmsg.NewPtrMetadataRequest()
		req.Version = 12
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &w.topic
		req.Topics = append(req.Topics, t)
		resp, err := c.Do(req)
		_ = c.Close()
		if err != nil {
			continue
		}
		m := resp.(*kmsg.MetadataResponse)
		for _, b := range m.Brokers {
			if len(m.Topics) == 1 && int(w.part) < len(m.Topics[0].Partitions) && b.NodeID == m.Topics[0].Partitions[w.part].Leader {
				if c, err := rawclient.Dial(ctx, fmt.Sprintf("%s:%d", b.Host, b.Port)); err == nil {
					c.Timeout = 2 * time.Second
					return c
				}
			}
		}
	}
	return nil
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context, addrs func() []string) {
	last := time.Now()
	pause := time.NewTicker(20 * time.Millisecond)
	defer pause.Stop()
	for ctx.Err() == nil {
		if w.conn == nil {
			if w.conn = w.leader(addrs()); w.conn == nil {
				<-pause.C
				continue
			}
		}
		b := record.NewBuilder(record.BuilderOptions{Producer: &record.Producer{ID: 1000 + int64(w.part), BaseSequence: int32(w.acked)}})
		b.Add(time.Now().UnixMilli(), nil, fmt.Appendf(nil, "%d", w.acked))
		resp, err := w.conn.Do(produceRequest(w.topic, w.part, -1, b.Build()))
		if err != nil || resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode != 0 {
			_ = w.conn.Close()
			w.conn = nil
			<-pause.C
			continue
		}
		w.acked++
		w.count.Add(1)
		w.silence = max(w.silence, time.Since(last))
		last = time.Now()
	}
	w.silence = max(w.silence, time.Since(last))
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

// Acknowledged records survive brokers that are killed one after the other, each once and in order, and nobody waits
// longer than a lease and an election take.
func TestR17_NothingAcknowledgedIsLostWhenBrokersAreKilled(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 3, map[string]string{"min.insync.replicas": "2"})
	var mu sync.Mutex
	addrs := func() (out []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range c.Live() {
			out = append(out, n.Addr)
		}
		return out
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	writers := make([]*writer, 3)
	for i := range writers {
		writers[i] = &writer{c: c, topic: "t", part: int32(i)}
		running.Go(func() { writers[i].run(ctx, addrs) })
	}
	for _, victim := range []int{1, 2, 3} {
		mu.Lock()
		n := c.Node(victim)
		mu.Unlock()
		n.Kill()
		inSync(t, c, 2, time.Minute)
		began := time.Now()
		mu.Lock()
		c.Restart(victim)
		mu.Unlock()
		t.Logf("broker %d started in %v", victim, time.Since(began))
		inSync(t, c, 3, time.Minute)
		t.Logf("broker %d is in every in-sync set %v after its start", victim, time.Since(began))
	}
	cancel()
	running.Wait()
	for _, w := range writers {
		t.Logf("partition %d: %d acknowledged, longest silence %v", w.part, w.acked, w.silence)
		if !testing.Short() { // of a machine that does much else it says nothing
			require.Less(t, w.silence, 6*time.Second)
		}
		got := w.consume(t, addrs())
		require.GreaterOrEqual(t, len(got), w.acked)
		for i, v := range got {
			require.Equal(t, fmt.Sprint(i), v)
		}
	}
}

// While Postgres is away for all, produce and fetch go on; when it is back nobody is elected and nobody taken out.
func TestH7_ProduceGoesOnWhilePostgresIsAway(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 3, map[string]string{"min.insync.replicas": "2"})
	before := rows(t, c)
	addrs := func() (out []string) {
		for _, n := range c.Nodes {
			out = append(out, n.Addr)
		}
		return out
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	writers := make([]*writer, 3)
	for i := range writers {
		writers[i] = &writer{c: c, topic: "t", part: int32(i)}
		running.Go(func() { writers[i].run(ctx, addrs) })
	}
	for _, w := range writers { // every leader knows the topic
		require.Eventually(t, func() bool { return w.count.Load() > 10 }, time.Minute, 10*time.Millisecond)
	}
	for _, n := range c.Nodes {
		n.PG.Freeze()
	}
	away := time.NewTimer(6 * time.Second)
	for _, w := range writers {
		frozen := w.count.Load()
		require.Eventually(t, func() bool { return w.count.Load() > frozen+10 }, time.Minute, 10*time.Millisecond)
	}
	<-away.C
	for _, n := range c.Nodes {
		n.PG.Thaw()
	}
	back := time.NewTimer(4 * time.Second) // longer than a lease
	<-back.C
	cancel()
	running.Wait()
	for i, p := range rows(t, c) {
		require.Equal(t, before[i].LeaderEpoch, p.LeaderEpoch)
		require.ElementsMatch(t, before[i].ISR, p.ISR)
	}
	for _, w := range writers {
		t.Logf("partition %d: %d acknowledged, longest silence %v", w.part, w.acked, w.silence)
		if !testing.Short() {
			require.Less(t, w.silence, 2*time.Second)
		}
		got := w.consume(t, addrs())
		require.Subset(t, []int{w.acked, w.acked + 1}, []int{len(got)}, "and perhaps one whose answer did not come in time")
		for i, v := range got {
			require.Equal(t, fmt.Sprint(i), v)
		}
	}
}

// inSync waits until each partition has n in-sync replicas and a leader.
func inSync(t *testing.T, c *brokertest.Cluster, n int, patience time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, p := range rows(t, c) {
			if len(p.ISR) != n || p.Leader < 0 {
				return false
			}
		}
		return true
	}, patience, 20*time.Millisecond, "%d are in sync everywhere", n)
}

// consume reads the values of the partition from its leader, what was acknowledged at least: a new leader shows it as soon as
// it has heard of its followers.
func (w *writer) consume(t *testing.T, addrs []string) (values []string) {
	t.Helper()
	var conn *rawclient.Client
	from := int64(0)
	for deadline := time.Now().Add(time.Minute); ; {
		if conn == nil {
			require.True(t, time.Now().Before(deadline), "%d of %d records of partition %d are read", len(values), w.acked, w.part)
			if conn = w.leader(addrs); conn == nil {
				continue
			}
			conn.Timeout = time.Minute
		}
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, 200, 1, 1<<20
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = w.topic
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = w.part, from, 1<<20
		ft.Partitions = append(ft.Partitions, fp)
		req.Topics = append(req.Topics, ft)
		resp, err := conn.Do(req)
		require.NoError(t, err)
		p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			require.Contains(t, []int16{0, kerr.NotLeaderForPartition.Code, kerr.UnknownTopicOrPartition.Code}, p.ErrorCode)
			_ = conn.Close()
			if p.ErrorCode == 0 && len(values) >= w.acked {
				return values
			}
			conn = nil // it may not be the leader's any more
			continue
		}
		for rest := p.RecordBatches; len(rest) > 0; {
			b, after, err := record.Split(rest)
			require.NoError(t, err)
			for r, err := range record.Records(b, nil) {
				require.NoError(t, err)
				values = append(values, string(r.Value))
				from = int64(r.Offset) + 1
			}
			rest = after
		}
	}
}
