package catalogtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// World is a store with brokers and a topic in it, and verbs to tell stories with.
type World struct {
	T   testing.TB
	Ctx context.Context
	S   catalog.Store
	// Inc has the incarnation of each registered broker.
	Inc map[catalog.BrokerID]catalog.Incarnation
}

// NewWorld is a world around a store.
func NewWorld(t testing.TB, s catalog.Store) *World {
	return &World{T: t, Ctx: context.Background(), S: s, Inc: map[catalog.BrokerID]catalog.Incarnation{}}
}

// Register registers brokers with new incarnations.
func (w *World) Register(ids ...catalog.BrokerID) {
	w.T.Helper()
	for _, id := range ids {
		r, err := w.S.Register(w.Ctx, registration(id))
		require.NoError(w.T, err)
		w.Inc[id] = r.Incarnation
	}
}

func registration(id catalog.BrokerID) catalog.Registration {
	return catalog.Registration{ID: id, Rack: fmt.Sprintf("rack-%d", id), Attempt: catalog.NewUUID().Hex(),
		Listeners: []catalog.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9092 + int32(id)}}}
}

// On places n partitions, each on the given brokers.
func On(n int, brokers ...catalog.BrokerID) func([]catalog.Broker) ([][]catalog.BrokerID, error) {
	return func([]catalog.Broker) ([][]catalog.BrokerID, error) {
		out := make([][]catalog.BrokerID, n)
		for i := range out {
			out[i] = brokers
		}
		return out, nil
	}
}

// Topic makes a topic with a random name and n partitions on the brokers.
func (w *World) Topic(n int, brokers ...catalog.BrokerID) catalog.Topic {
	w.T.Helper()
	id := catalog.NewUUID()
	t, err := w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: id, Name: "topic-" + id.Hex()[:8], Place: On(n, brokers...)})
	require.NoError(w.T, err)
	return t
}

// Partition is a partition with the guard of its leader.
type Partition struct {
	*World
	ID    catalog.PartitionID
	Guard catalog.Guard
}

// OnePartition is a registered broker 1 that leads the one partition of a new topic.
func (w *World) OnePartition() *Partition {
	w.T.Helper()
	if w.Inc[1] == 0 {
		w.Register(1)
	}
	return w.Led(w.Topic(1, 1), 0)
}

// Led is a partition of a topic under its present leader.
func (w *World) Led(t catalog.Topic, n int32) *Partition {
	w.T.Helper()
	p := &Partition{World: w, ID: catalog.PartitionID{Topic: t.ID, Partition: n}}
	row := p.Row()
	p.Guard = catalog.Guard{Broker: row.Leader, Incarnation: w.Inc[row.Leader], Epoch: row.LeaderEpoch}
	return p
}

// Row reads the partition's row.
func (p *Partition) Row() catalog.Partition {
	p.T.Helper()
	row, err := p.S.Partition(p.Ctx, p.ID)
	require.NoError(p.T, err)
	return row
}

// Segment is a new attempt of the range, of 10 bytes an offset; each offset is 1 s later than the one
// before.
func (p *Partition) Segment(base, next record.Offset) catalog.Segment {
	attempt := catalog.NewUUID().Hex()
	return catalog.Segment{
		Partition: p.ID, Base: base, Next: next, Bytes: 10 * int64(next-base), Records: int64(next - base),
		MinTimestamp: 1000 * int64(base), MaxTimestamp: 1000 * int64(next-1), AppendTime: 5,
		Key:          fmt.Sprintf("segments/%s/%d/%020d-%s", p.ID.Topic.Hex(), p.ID.Partition, base, attempt),
		TailPosition: 8 * int64(next-base), DataBytes: 7 * int64(next-base), SHA256: sha256.Sum256([]byte(attempt)),
		LeaderEpoch: p.Guard.Epoch, Attempt: attempt,
	}
}

// Intent is what is written before s is put.
func (p *Partition) Intent(s catalog.Segment) catalog.Intent {
	return catalog.Intent{Attempt: s.Attempt, Partition: p.ID, Base: s.Base, Next: s.Next, Key: s.Key, Guard: p.Guard}
}

// Announce puts the intent of s.
func (p *Partition) Announce(s catalog.Segment) catalog.Segment {
	p.T.Helper()
	require.NoError(p.T, p.S.PutIntent(p.Ctx, p.Intent(s)))
	return s
}

// Upload takes a range through its whole life up to live.
func (p *Partition) Upload(base, next record.Offset) catalog.Segment {
	p.T.Helper()
	return p.Publish(p.Announce(p.Segment(base, next)))
}

// Publish publishes s and returns its row.
func (p *Partition) Publish(s catalog.Segment) catalog.Segment {
	p.T.Helper()
	_, err := p.S.Publish(p.Ctx, p.Guard, s)
	require.NoError(p.T, err)
	row, err := p.S.SegmentAt(p.Ctx, p.ID, s.Base)
	require.NoError(p.T, err)
	require.Equal(p.T, s.Attempt, row.Attempt)
	return row
}

// Ranges is the live rows as text: "[0,10) [10,20)".
func (p *Partition) Ranges() string {
	p.T.Helper()
	rows, err := p.S.ListSegments(p.Ctx, p.ID, 0, 10000)
	require.NoError(p.T, err)
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("[%d,%d)", r.Base, r.Next))
	}
	return strings.Join(out, " ")
}

// Attempts is the intents of the partition.
func (p *Partition) Attempts() []string {
	p.T.Helper()
	ins, err := p.S.Intents(p.Ctx, p.ID)
	require.NoError(p.T, err)
	out := []string{}
	for _, in := range ins {
		out = append(out, in.Attempt)
	}
	return out
}

// Garbage is the keys that garbage rows name, due or not.
func (w *World) Garbage() []string {
	w.T.Helper()
	rows, err := w.S.DueGarbage(w.Ctx, 0, 0, 10000)
	require.NoError(w.T, err)
	out := []string{}
	for _, g := range rows {
		out = append(out, g.Key)
	}
	return out
}

// Position is where the counter stands.
func (w *World) Position() catalog.Position {
	w.T.Helper()
	ch, err := w.S.Pull(w.Ctx, catalog.Position{})
	require.NoError(w.T, err)
	return ch.Position
}

// WithoutCounter does work and makes sure that the counter did not move (H13).
func (w *World) WithoutCounter(work func()) {
	w.T.Helper()
	before := w.Position()
	work()
	require.Equal(w.T, before, w.Position(), "the counter moved")
}

// Controller is the guard of whoever is the controller, and makes the first live broker one if nobody is.
func (w *World) Controller() catalog.Controller {
	w.T.Helper()
	ls := w.leases()
	if ls.Controller.Broker != catalog.NoBroker {
		return ls.Controller
	}
	for _, b := range ls.Brokers {
		if b.Live {
			c, err := w.S.TakeController(w.Ctx, b.ID, b.Incarnation, catalog.Controller{})
			require.NoError(w.T, err)
			return c
		}
	}
	w.T.Fatal("nobody can be the controller")
	return catalog.Controller{}
}

// GiveSlots gives coordinator slots to a broker, whoever has them.
func (w *World) GiveSlots(b catalog.BrokerID, slots ...int32) []catalog.SlotGuard {
	w.T.Helper()
	ch, err := w.S.Pull(w.Ctx, catalog.Position{})
	require.NoError(w.T, err)
	var moves []catalog.SlotMove
	for _, n := range slots {
		moves = append(moves, catalog.SlotMove{Slot: n, To: b, IfEpoch: ch.Slots[n].Epoch})
	}
	gs, err := w.S.AssignSlots(w.Ctx, w.Controller(), moves)
	require.NoError(w.T, err)
	require.Len(w.T, gs, len(slots))
	return gs
}

// Elect makes a broker leader with the given ISR.
func (p *Partition) Elect(leader catalog.BrokerID, isr ...catalog.BrokerID) *Partition {
	p.T.Helper()
	row := p.Row()
	changed, err := p.S.Elect(p.Ctx, p.Controller(), []catalog.Election{{ID: p.ID, Leader: leader, ISR: p.members(isr...), IfVersion: row.Version}})
	require.NoError(p.T, err)
	require.Len(p.T, changed, 1)
	q := *p
	q.Guard = catalog.Guard{Broker: leader, Incarnation: p.Inc[leader], Epoch: changed[0].LeaderEpoch}
	return &q
}

func (w *World) members(ids ...catalog.BrokerID) []catalog.Member {
	var out []catalog.Member
	for _, id := range ids {
		out = append(out, catalog.Member{Broker: id, Incarnation: w.Inc[id]})
	}
	return out
}
