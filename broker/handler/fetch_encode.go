package handler

import (
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/pace"
	"tidemark/broker/partition"
	"tidemark/broker/wire"
	"tidemark/record/producer"
)

// fetchBody is an encoded fetch answer: header bytes with records between them. It is byte for byte what
// kmsg would write (P1), without copying the records.
type fetchBody struct {
	head []byte
	cuts []cut
	size int
	pace *pace.Pace
}

// cut says that records stand after head[:at].
type cut struct {
	at     int
	pieces []partition.Piece
}

// body encodes the answer and hands the records over to it.
func (f *fetch) body() wire.Body {
	shown := f.entries
	var id int32
	if f.session != nil {
		id = f.session.id
		shown = f.session.shown(f.entries)
	}
	b := &fetchBody{pace: f.h.ColdPace, head: make([]byte, 0, 64+96*len(shown))}
	b.begin(f.version, id, max(f.throttle, f.throttleReplica()))
	b.topics(f, shown)
	if f.version >= 12 {
		b.head = append(b.head, 0) // tags
	}
	b.size += len(b.head)
	f.count()
	f.end()
	return b
}

// end lets go of what the answer does not need; the records are its own from here on.
func (f *fetch) end() {
	for _, e := range f.entries {
		e.served = e.got.Bytes > 0
		e.got.Pieces = nil
		e.got.Release()
	}
	if f.session != nil {
		f.session.settle(f.entries)
		f.session.endTurn()
	}
	if f.reserved > 0 {
		f.h.sessions.release(f.reserved)
	}
	f.entries = nil
}

func (b *fetchBody) begin(version int16, session int32, throttle time.Duration) {
	b.head = kbin.AppendInt32(b.head, int32(min(throttle.Milliseconds(), math.MaxInt32)))
	if version >= 7 {
		b.head = kbin.AppendInt16(b.head, 0)
		b.head = kbin.AppendInt32(b.head, session)
	}
}

func (b *fetchBody) arrayLen(n int, flexible bool) {
	if flexible {
		b.head = kbin.AppendCompactArrayLen(b.head, n)
		return
	}
	b.head = kbin.AppendArrayLen(b.head, n)
}

// topics groups neighbours of one topic.
func (b *fetchBody) topics(f *fetch, es []*fetchEntry) {
	flexible := f.version >= 12
	same := func(i, j int) bool { return es[i].key.topic == es[j].key.topic && es[i].key.id == es[j].key.id }
	n := 0
	for i := range es {
		if i == 0 || !same(i, i-1) {
			n++
		}
	}
	b.arrayLen(n, flexible)
	for i := 0; i < len(es); {
		j := i + 1
		for j < len(es) && same(i, j) {
			j++
		}
		switch {
		case f.version >= 13:
			b.head = append(b.head, es[i].key.id[:]...)
		case flexible:
			b.head = kbin.AppendCompactString(b.head, es[i].key.topic)
		default:
			b.head = kbin.AppendString(b.head, es[i].key.topic)
		}
		b.arrayLen(j-i, flexible)
		for ; i < j; i++ {
			b.partition(f, es[i], flexible)
		}
		if flexible {
			b.head = append(b.head, 0)
		}
	}
}

func (b *fetchBody) partition(f *fetch, e *fetchEntry, flexible bool) {
	h := kbin.AppendInt32(b.head, e.key.part)
	h = kbin.AppendInt16(h, e.code)
	h = kbin.AppendInt64(h, int64(e.got.HW))
	h = kbin.AppendInt64(h, int64(e.got.Stable))
	if f.version >= 5 {
		h = kbin.AppendInt64(h, int64(e.got.Start))
	}
	h = appendAborted(h, e.got.Aborted, f.committed && e.code == 0, flexible)
	if f.version >= 11 {
		h = kbin.AppendInt32(h, int32(e.near)) // preferred read replica; -1 is none
	}
	if flexible {
		h = kbin.AppendUvarint(h, uint32(e.got.Bytes)+1)
	} else {
		h = kbin.AppendInt32(h, int32(e.got.Bytes))
	}
	if e.got.Bytes > 0 {
		b.cuts = append(b.cuts, cut{len(h), e.got.Pieces})
		b.size += e.got.Bytes
	}
	if flexible {
		h = f.appendLeader(h, e)
	}
	b.head = h
}

// appendAborted writes the aborted transactions: null for read_uncommitted.
func appendAborted(h []byte, as []producer.Aborted, committed, flexible bool) []byte {
	if flexible {
		h = kbin.AppendCompactNullableArrayLen(h, len(as), !committed)
	} else {
		h = kbin.AppendNullableArrayLen(h, len(as), !committed)
	}
	if !committed {
		return h
	}
	for _, a := range as {
		h = kbin.AppendInt64(h, a.ProducerID)
		h = kbin.AppendInt64(h, int64(a.First))
		if flexible {
			h = append(h, 0)
		}
	}
	return h
}

// appendLeader writes a partition's tags: who leads, where the client was wrong about it (KIP-951).
func (f *fetch) appendLeader(h []byte, e *fetchEntry) []byte {
	wrong := e.code == kerr.NotLeaderForPartition.Code || e.code == kerr.FencedLeaderEpoch.Code
	if !wrong || e.part == nil {
		return append(h, 0)
	}
	row, ok := f.h.Metadata.Image().Partition(e.part.ID)
	if !ok {
		return append(h, 0)
	}
	h = append(h, 1, 1, 9) // one tag: number 1, 9 bytes
	h = kbin.AppendInt32(h, int32(row.Leader))
	h = kbin.AppendInt32(h, int32(row.LeaderEpoch))
	return append(h, 0)
}

// count adds to the metrics.
func (f *fetch) count() {
	for _, e := range f.entries {
		for _, x := range e.got.Pieces {
			if !x.IsCold() {
				f.h.metrics.fetchedHot.Add(float64(x.Len()))
			} else {
				f.h.metrics.fetchedCold.Add(float64(x.Len()))
			}
		}
	}
}

// Size implements wire.Body.
func (b *fetchBody) Size() int { return b.size }

// Release implements wire.Body.
func (b *fetchBody) Release() {
	for _, c := range b.cuts {
		for _, x := range c.pieces {
			x.Release()
		}
	}
}

// WriteTo implements wire.Body.
func (b *fetchBody) WriteTo(w *wire.Writer) error {
	at := 0
	for _, c := range b.cuts {
		if _, err := w.Write(b.head[at:c.at]); err != nil {
			return err
		}
		at = c.at
		for _, x := range c.pieces {
			if err := b.sendPiece(w, x); err != nil {
				return err
			}
		}
	}
	_, err := w.Write(b.head[at:])
	return err
}

func (b *fetchBody) sendPiece(w *wire.Writer, x partition.Piece) error {
	file, at, ok, err := x.Section()
	if err != nil {
		return err
	}
	if ok {
		if x.IsCold() {
			b.pace.Step(x.Len())
		}
		return w.SendFile(file, at, int64(x.Len()))
	}
	return b.copyPiece(w, x)
}

// copyStep is how much of a piece that is in memory is copied at once; it is what a slow reader holds.
const copyStep = 256 << 10

var copies = sync.Pool{New: func() any { return new([copyStep]byte) }}

func (b *fetchBody) copyPiece(w *wire.Writer, x partition.Piece) error {
	buf := copies.Get().(*[copyStep]byte)
	defer copies.Put(buf)
	for at := int64(0); at < int64(x.Len()); {
		part := buf[:min(copyStep, int64(x.Len())-at)]
		b.pace.Step(len(part))
		if n, err := x.ReadAt(part, at); n < len(part) {
			return err
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		at += int64(len(part))
		runtime.Gosched() // a replay yields to who waits for little
	}
	return nil
}
