package partition_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/integration/rawclient"
	"tidemark/record"
	"tidemark/replication"
)

// storm is a world in which everything that may happen happens, as the checked model has it: leases run out rightly
// and wrongly, brokers are killed, lose power, are cut off from each other and from the catalog, answers are lost.
// Elections are those that the controller would make.
type storm struct {
	*world
	rand  *rand.Rand
	mu    sync.Mutex // guards the writers' view of who is up
	acked int
}

// TestR17_NothingAcknowledgedIsLostInAStorm writes one idempotent record after the other with acks=all meanwhile, and
// demands each acknowledged one, once and in order, on every broker's disk afterwards. TIDEMARK_STORM sets how long.
func TestR17_NothingAcknowledgedIsLostInAStorm(t *testing.T) {
	length := 6 * time.Second
	if d, err := time.ParseDuration(os.Getenv("TIDEMARK_STORM")); err == nil {
		length = d
	}
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("TIDEMARK_STORM_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("TIDEMARK_STORM_SEED=%d", seed)
	s := &storm{world: newHastyWorld(t, 3, 400*time.Millisecond), rand: rand.New(rand.NewPCG(seed, 1))}
	s.create(keep("min.insync.replicas", "2", "segment.bytes", "8000"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writing sync.WaitGroup
	writing.Go(func() { s.write(ctx) })
	end := time.Now().Add(length)
	steps := map[string]int{}
	for time.Now().Before(end) {
		name, step := s.any()
		s.mu.Lock()
		if step() {
			steps[name]++
		}
		s.mu.Unlock()
		s.lead()
		s.rest(time.Duration(10+s.rand.IntN(120)) * time.Millisecond)
	}
	s.heal()
	cancel()
	writing.Wait()
	t.Logf("%d records acknowledged, epoch %d, %v", s.acked, s.row().LeaderEpoch, steps)
	s.settled()
	var longest []byte
	for _, n := range s.nodes {
		got := n.consume(0)
		require.GreaterOrEqual(t, len(got), s.acked, "on broker %d", n.id)
		for i, v := range got {
			require.Equal(t, fmt.Sprintf("%d:%d", i, i), v, "on broker %d", n.id)
		}
		if b := n.bytesOf(); len(b) > len(longest) {
			longest = b
		}
	}
	for _, n := range s.nodes { // one that began at the tier's end has less
		require.True(t, bytes.HasSuffix(longest, n.bytesOf()), "the log of broker %d is another", n.id)
	}
}

// rest lets time pass: a storm is made of moments, there is nothing to wait for.
func (s *storm) rest(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}

func (s *storm) any() (string, func() bool) {
	n := s.nodes[catalog.BrokerID(1+s.rand.IntN(3))]
	other := s.nodes[catalog.BrokerID(1+s.rand.IntN(3))]
	steps := []struct {
		name string
		do   func() bool
	}{
		{"kill", func() bool { return s.down(n, false) }},
		{"power", func() bool { return s.down(n, true) }},
		{"back", func() bool { return s.up(n) }},
		{"back", func() bool { return s.up(other) }},
		{"back", func() bool { return s.up(other) }},
		{"reach", func() bool { s.reachAll(); return true }},
		{"mend", func() bool { n.cut.Clear(); other.cut.Clear(); return true }},
		{"move", func() bool { return s.move(n) }},
		{"move", func() bool { return s.move(other) }},
		{"cut", func() bool { n.cut.Store(other.addr, true); return true }},
		{"mend", func() bool { n.cut.Clear(); other.cut.Clear(); return true }},
		{"away", func() bool { n.catalog.away.Store(true); return true }},
		{"deaf", func() bool { n.catalog.deaf.Store(true); return true }},
		{"reach", func() bool { s.reachAll(); return true }},
		{"move", func() bool { return s.move(n) }},
	}
	x := steps[s.rand.IntN(len(steps))]
	return x.name, x.do
}

func (s *storm) reachAll() {
	for _, n := range s.nodes {
		n.catalog.away.Store(false)
		n.catalog.deaf.Store(false)
	}
}

// down kills a broker; one that loses power loses what it wrote last, one at a time.
func (s *storm) down(n *node, power bool) bool {
	if !n.up || power && len(s.row().ISR) < 3 {
		return false
	}
	n.kill()
	if power {
		n.loseTail(s.rand)
		n.inc = 0
	}
	return true
}

func (s *storm) up(n *node) bool {
	if n.up {
		return false
	}
	n.catalog.away.Store(false)
	n.start(n.inc)
	return true
}

// brokers are the registered ones, those that are down not live.
func (s *storm) brokers() replication.Brokers {
	list, err := s.store.Brokers(context.Background())
	require.NoError(s, err)
	for i := range list {
		list[i].Live = s.nodes[list[i].ID].up
	}
	return replication.ByID(list)
}

// lead elects as the controller would if the leader is gone.
func (s *storm) lead() {
	row := s.row()
	if row.Leader != catalog.NoBroker && s.nodes[row.Leader].up {
		return
	}
	e, loss, ok := replication.Elect(row, s.brokers(), replication.Settings{MinISR: 2, Topic: s.topicVersion()}, nil)
	if !ok {
		return
	}
	require.Equal(s, replication.NoLoss, loss)
	_, err := s.store.Elect(context.Background(), s.boss, []catalog.Election{e})
	require.NoError(s, err)
}

// move takes the leadership away from one that may be well.
func (s *storm) move(to *node) bool {
	row := s.row()
	if !to.up || row.Leader == to.id || !slices.Contains(row.ISR, to.member()) {
		return false
	}
	e := catalog.Election{ID: row.ID, Leader: to.id, ISR: row.ISR, ELR: row.ELR, IfVersion: row.Version, IfTopic: s.topicVersion()}
	if s.rand.IntN(2) == 0 { // its lease ran out
		e.ISR = slices.DeleteFunc(slices.Clone(row.ISR), func(m catalog.Member) bool { return m.Broker == row.Leader })
		e.ELR = catalog.NextELR(row, e.ISR, 2, func(m catalog.Member) bool { return s.nodes[m.Broker].inc == m.Incarnation })
	}
	rows, err := s.store.Elect(context.Background(), s.boss, []catalog.Election{e})
	require.NoError(s, err)
	return len(rows) > 0
}

// heal ends the storm.
func (s *storm) heal() {
	s.reachAll()
	s.mu.Lock()
	for _, n := range s.nodes {
		s.up(n)
	}
	for _, n := range s.nodes {
		n.cut.Clear()
	}
	s.mu.Unlock()
	s.until(func() bool {
		s.lead()
		return len(s.row().ISR) == 3
	}, "all are in sync again: %+v", s.row())
}

// write appends 0, 1, 2 … one after the other, each again until it is acknowledged.
func (s *storm) write(ctx context.Context) {
	for ctx.Err() == nil {
		addr := s.leader()
		if addr == "" {
			s.rest(5 * time.Millisecond)
			continue
		}
		c, err := rawclient.Dial(ctx, addr)
		if err != nil {
			s.rest(5 * time.Millisecond)
			continue
		}
		c.Timeout = time.Second
		for ctx.Err() == nil && s.writeOne(c) {
			s.acked++
		}
		_ = c.Close()
	}
}

// leader is where the leader listens, if it is up.
func (s *storm) leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[s.row().Leader]; n != nil && n.up {
		return n.addr
	}
	return ""
}

func (s *storm) writeOne(c *rawclient.Client) bool {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 500
	t := kmsg.NewProduceRequestTopic()
	t.Topic = s.topic.Name
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = idempotent(77, int32(s.acked), strconv.Itoa(s.acked))
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := c.Do(req)
	return err == nil && resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode == 0
}

// loseTail cuts the newest segment that has bytes at a batch edge.
func (n *node) loseTail(r *rand.Rand) {
	files, err := filepath.Glob(filepath.Join(n.data.Path(n.topic.ID, 0), "*.log"))
	require.NoError(n, err)
	slices.Sort(files)
	for _, f := range slices.Backward(files) {
		b, err := os.ReadFile(f)
		require.NoError(n, err)
		if len(b) == 0 {
			continue
		}
		edges := []int64{0}
		for rest := b; len(rest) > 0; {
			one, after, err := record.Split(rest)
			if err != nil {
				break
			}
			edges, rest = append(edges, edges[len(edges)-1]+int64(len(one))), after
		}
		keep := edges[max(0, len(edges)-1-r.IntN(10))]
		require.NoError(n, os.Truncate(f, keep))
		_ = os.Remove(filepath.Join(filepath.Dir(f), "recovery-point"))
		return
	}
}
