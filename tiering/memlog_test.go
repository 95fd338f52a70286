package tiering

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// memLog is a partition's log in memory: a story of batches, cut into segments, and the Source that the
// tier sees.
type memLog struct {
	mu        sync.Mutex
	guard     catalog.Guard
	leads     bool
	data      []byte
	batches   []record.Header
	at        []int
	seals     []record.Offset
	next      record.Offset
	hw        record.Offset // -1: next
	freed     record.Offset // local start
	epoch     record.Epoch
	epochs    record.EpochHistory
	clock     int64
	size      int
	compacted bool
	aborted   producer.AbortedList
	published []catalog.Bounds
	damaged   []error
	held      int
	asked     []record.Offset
}

func newMemLog(g catalog.Guard) *memLog {
	return &memLog{guard: g, leads: true, hw: -1, epoch: g.Epoch, clock: 1_000, size: 20}
}

func (l *memLog) add(batch []byte) {
	h, err := record.ParseHeader(batch)
	if err != nil {
		panic(err)
	}
	l.epochs.Assign(h.LeaderEpoch, h.BaseOffset)
	l.batches, l.at = append(l.batches, h), append(l.at, len(l.data))
	l.data = append(l.data, batch...)
	l.next = h.NextOffset()
}

// batch appends one batch of n records, a second apart.
func (l *memLog) batch(n int) { l.batchOf(nil, false, n) }

func (l *memLog) batchOf(p *record.Producer, txn bool, n int) {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: l.next, LeaderEpoch: l.epoch, Producer: p, Transactional: txn})
	for i := range n {
		b.Add(l.clock, fmt.Appendf(nil, "k%d", int(l.next)+i), bytes.Repeat([]byte{byte(int(l.next) + i)}, l.size))
		l.clock += 1000
	}
	l.add(b.Build())
}

func (l *memLog) marker(id int64, t record.ControlType) {
	l.add(record.ControlBatch(record.ControlOptions{Type: t, BaseOffset: l.next, LeaderEpoch: l.epoch, ProducerID: id, Timestamp: l.clock}))
}

func (l *memLog) seal() { l.seals = append(l.seals, l.next) }

// segments appends sealed segments of ten one-record batches.
func (l *memLog) segments(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		for range 10 {
			l.batch(1)
		}
		l.seal()
	}
}

// between is the bytes of the batches from the one that reaches from up to next.
func (l *memLog) between(from, next record.Offset) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	begin, end := -1, len(l.data)
	for i, h := range l.batches {
		if begin < 0 && h.LastOffset() >= from {
			begin = l.at[i]
		}
		if h.BaseOffset >= next {
			end = l.at[i]
			break
		}
	}
	if begin < 0 || begin >= end {
		return []byte{}
	}
	return bytes.Clone(l.data[begin:end])
}

// Leadership implements Source.
func (l *memLog) Leadership() (catalog.Guard, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.guard, l.leads
}

func (l *memLog) setGuard(g catalog.Guard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.guard, l.epoch = g, g.Epoch
}

// Sealed implements Source.
func (l *memLog) Sealed(_ context.Context, from record.Offset) (*Run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, from)
	if from < l.freed {
		return nil, fmt.Errorf("offset %d was freed", from)
	}
	for _, end := range l.seals {
		if end <= from {
			continue
		}
		if l.hw >= 0 && end > l.hw {
			return nil, nil
		}
		return l.runLocked(from, end), nil
	}
	return nil, nil
}

func (l *memLog) runLocked(from, end record.Offset) *Run {
	run := &Run{Next: end, AppendTime: 5_000, Aborted: l.aborted, TopicName: "events", Compacted: l.compacted}
	first, last := -1, len(l.data)
	for i, h := range l.batches {
		if first < 0 && h.LastOffset() >= from {
			first, run.Base = l.at[i], h.BaseOffset
		}
		if h.BaseOffset >= end {
			last = l.at[i]
			break
		}
	}
	run.Data, run.Size = bytes.NewReader(bytes.Clone(l.data[first:last])), int64(last-first)
	run.Epochs = l.epochs
	l.held++
	run.Release = sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held--
	})
	return run
}

// Published implements Source.
func (l *memLog) Published(b catalog.Bounds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.published = append(l.published, b)
}

// Hold implements Source.
func (l *memLog) Hold(base, next record.Offset) (func(), bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return func() {}, base >= l.freed && next <= l.next
}

// Agrees implements Source.
func (l *memLog) Agrees(epochs record.EpochHistory, base, next record.Offset) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochs.EqualOn(epochs, max(base, l.freed), min(next, l.next))
}

// Damaged implements Source.
func (l *memLog) Damaged(_ record.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.damaged = append(l.damaged, err)
}

func (l *memLog) lastPublished() record.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.published) == 0 {
		return -1
	}
	return l.published[len(l.published)-1].Tiered
}
