package hotlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/record/producer"
)

// firstTxnID and above are producers whose batches are transactional.
const firstTxnID = 10

// twin is what a log should be: all its batches, since offset 0, in memory.
type twin struct {
	batches []twinBatch
	start   record.Offset // localStart
	end     record.Offset
	next    map[int64]int32 // per producer, the next sequence
	serial  int
}

type twinBatch struct {
	h     record.Header
	bytes []byte
}

func newTwin() *twin { return &twin{next: map[int64]int32{}} }

func (w *twin) clone() *twin {
	c := *w
	c.batches = slices.Clone(w.batches)
	return &c
}

// build makes the next batch: unique bytes, times that go up and down.
func (w *twin) build(id int64, records int, epoch record.Epoch) []byte {
	o := record.BuilderOptions{}
	if id >= 0 {
		o.Producer = &record.Producer{ID: id, BaseSequence: w.sequence(id)}
		o.Transactional = id >= firstTxnID
	}
	b := record.NewBuilder(o)
	for i := range records {
		w.serial++
		b.Add(day+int64((w.serial*7919)%1000), nil, fmt.Appendf(nil, "record %d of %d", i, w.serial))
	}
	return b.Build()
}

func (w *twin) sequence(id int64) int32 {
	for _, b := range slices.Backward(w.batches) {
		if b.h.ProducerID == id && !b.h.IsControl() {
			return b.h.LastSequence() + 1
		}
	}
	return 0
}

// took notes that the log appended b, whose bytes it has stamped.
func (w *twin) took(b []byte) error {
	h, err := record.ParseHeader(b)
	if err != nil {
		return err
	}
	w.batches = append(w.batches, twinBatch{h, bytes.Clone(b)})
	w.end = h.NextOffset()
	return nil
}

func (w *twin) truncate(to record.Offset) {
	for len(w.batches) > 0 && w.batches[len(w.batches)-1].h.NextOffset() > to {
		w.end = w.batches[len(w.batches)-1].h.BaseOffset
		w.batches = w.batches[:len(w.batches)-1]
	}
	w.end = max(w.end, w.start)
}

// batchAt is the batch that holds an offset.
func (w *twin) batchAt(at record.Offset) (twinBatch, bool) {
	for _, b := range w.batches {
		if b.h.BaseOffset <= at && at < b.h.NextOffset() {
			return b, true
		}
	}
	return twinBatch{}, false
}

// holds compares a log's batches in [from, to) with the twin's, byte for byte.
func (w *twin) holds(t require.TestingT, l *Log, from, to record.Offset) {
	for from < to {
		s, err := l.Read(from, to, 700, true)
		require.NoError(t, err)
		require.Positive(t, s.Len, "nothing at %d of %d", from, to)
		got := make([]byte, s.Len)
		_, err = s.ReadAt(got, 0)
		require.NoError(t, err)
		s.Release()
		for len(got) > 0 {
			want, ok := w.batchAt(from)
			require.True(t, ok, "offset %d", from)
			require.GreaterOrEqual(t, len(got), len(want.bytes))
			require.True(t, bytes.Equal(want.bytes, got[:len(want.bytes)]), "batch at %d", from)
			got, from = got[len(want.bytes):], want.h.NextOffset()
		}
		require.Equal(t, from, s.Next)
	}
}

// knows compares what the log says besides its batches: epochs, producers, times.
func (w *twin) knows(t require.TestingT, l *Log) {
	b := l.Bounds()
	epochs, state := l.Epochs(), l.Producers()
	require.Equal(t, b.End, state.End())
	last := map[int64]twinBatch{}
	peak, peakAt := int64(-1), record.Offset(-1)
	for _, x := range w.batches {
		if x.h.NextOffset() > b.End {
			break
		}
		if x.h.HasProducer() && !x.h.IsControl() {
			last[x.h.ProducerID] = x
		}
		if x.h.BaseOffset >= b.LocalStart {
			require.Equal(t, x.h.LeaderEpoch, epochs.EpochAt(x.h.BaseOffset), "epoch at %d", x.h.BaseOffset)
			if x.h.MaxTimestamp > peak {
				peak, peakAt = x.h.MaxTimestamp, x.h.BaseOffset
			}
		}
	}
	require.Equal(t, len(last), state.Len())
	for id, x := range last {
		v, err := state.Check(x.h)
		require.NoError(t, err, "producer %d", id)
		require.Equal(t, producer.Verdict{Duplicate: true, BaseOffset: x.h.BaseOffset, LastOffset: x.h.LastOffset(), Timestamp: x.h.MaxTimestamp}, v)
	}
	w.knowsTransactions(t, l, b)
	p, ok, err := l.MaxTimestamp(b.LocalStart, b.End)
	require.NoError(t, err)
	require.Equal(t, peakAt >= 0, ok)
	if ok {
		require.Equal(t, peak, p.Timestamp)
		holder, _ := w.batchAt(p.Offset)
		require.Equal(t, peakAt, holder.h.BaseOffset)
	}
}

// openTxns walks the batches below end: where each open transaction began, and the
// aborted ones.
func (w *twin) openTxns(end record.Offset) (map[int64]record.Offset, []producer.Aborted) {
	open := map[int64]record.Offset{}
	var aborted []producer.Aborted
	for _, b := range w.batches {
		if b.h.NextOffset() > end || !b.h.IsTransactional() {
			continue
		}
		first, isOpen := open[b.h.ProducerID]
		switch {
		case !b.h.IsControl() && !isOpen:
			open[b.h.ProducerID] = b.h.BaseOffset
		case b.h.IsControl():
			if kind, _, _ := record.ParseControl(b.bytes); kind == record.ControlAbort && isOpen {
				aborted = append(aborted, producer.Aborted{ProducerID: b.h.ProducerID, First: first, Last: b.h.BaseOffset})
			}
			delete(open, b.h.ProducerID)
		}
	}
	return open, aborted
}

func (w *twin) knowsTransactions(t require.TestingT, l *Log, b Bounds) {
	open, aborted := w.openTxns(b.End)
	aborted = slices.DeleteFunc(aborted, func(a producer.Aborted) bool { return a.Last < b.LocalStart })
	got := l.Aborted(b.LocalStart, b.End)
	for i := range got {
		got[i].LastStable = 0
	}
	require.Equal(t, append([]producer.Aborted{}, aborted...), append([]producer.Aborted{}, got...))
	want, held := record.NoOffset, len(open) > 0
	for _, first := range open {
		if want < 0 || first < want {
			want = first
		}
	}
	first, ok := l.FirstUndecided(b.End)
	require.Equal(t, held, ok)
	if ok {
		require.Equal(t, want, first)
	}
}
