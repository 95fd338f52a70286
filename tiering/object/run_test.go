package object

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/record/producer"
)

// run is a story of batches for tests: each method appends one.
type run struct {
	data    []byte
	base    record.Offset
	next    record.Offset
	epoch   record.Epoch
	clock   int64
	codec   record.Codec
	aborted producer.AbortedList
	batches []record.Header
	at      []int64 // position of each batch
}

func newRun(base record.Offset) *run { return &run{base: base, next: base, clock: 1000} }

func (r *run) add(batch []byte) *run {
	h, err := record.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	r.batches = append(r.batches, h)
	r.at = append(r.at, int64(len(r.data)))
	r.data = append(r.data, batch...)
	r.next = h.NextOffset()
	return r
}

// plain appends n records of size bytes, one millisecond apart.
func (r *run) plain(n, size int) *run { return r.of(nil, false, n, size) }

func (r *run) of(p *record.Producer, txn bool, n, size int) *run {
	b := record.NewBuilder(record.BuilderOptions{Codec: r.codec, BaseOffset: r.next, LeaderEpoch: r.epoch, Producer: p, Transactional: txn})
	for i := range n {
		r.clock++
		b.Add(r.clock, fmt.Appendf(nil, "k%d", int(r.next)+i), bytes.Repeat([]byte{byte(i)}, size))
	}
	return r.add(b.Build())
}

// keyed appends one batch of given keys; a nil value is a tombstone.
func (r *run) keyed(p *record.Producer, kv ...[]byte) *run {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: r.next, LeaderEpoch: r.epoch, Producer: p, Transactional: p != nil})
	for i := 0; i < len(kv); i += 2 {
		r.clock++
		b.Add(r.clock, kv[i], kv[i+1])
	}
	return r.add(b.Build())
}

func (r *run) marker(id int64, t record.ControlType) *run {
	r.clock++
	return r.add(record.ControlBatch(record.ControlOptions{Type: t, BaseOffset: r.next, LeaderEpoch: r.epoch, ProducerID: id, Timestamp: r.clock}))
}

func (r *run) spec() Spec {
	return Spec{
		Cluster: ID{0xc1}, Topic: ID{0x70}, TopicName: "events", Partition: 3, LeaderEpoch: r.epoch, Attempt: "0123456789abcdef0123456789abcdef",
		Base: r.base, Next: r.next, AppendTime: 77_000, Aborted: r.aborted,
	}
}

func (r *run) build(t testing.TB, change func(*Spec)) *Built {
	t.Helper()
	s := r.spec()
	if change != nil {
		change(&s)
	}
	b, err := Build(context.Background(), s, bytes.NewReader(r.data), int64(len(r.data)))
	require.NoError(t, err)
	return b
}

// whole returns the object's bytes.
func whole(t testing.TB, b *Built) []byte {
	t.Helper()
	out := make([]byte, b.ObjectBytes)
	n, err := b.ReadAt(out, 0)
	require.NoError(t, err)
	require.Len(t, out, n)
	return out
}

func tailOf(t testing.TB, b *Built) *Tail {
	t.Helper()
	tail, err := ParseTail(b.Tail(), b.TailPosition, b.ObjectBytes)
	require.NoError(t, err)
	return tail
}
