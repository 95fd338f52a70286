package producer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// log is a partition's log as the tests see it: it gives offsets, keeps the
// headers and follows them with a State.
type log struct {
	t       *testing.T
	state   *State
	now     int64
	headers []record.Header
	markers map[record.Offset]Control
	aborted AbortedList
}

func newLog(t *testing.T) *log {
	return &log{t: t, state: New(0, 0), markers: map[record.Offset]Control{}, now: 1000}
}

// data is producer p's batch of n records from sequence seq.
func data(p int64, epoch int16, seq, n int32) record.Header {
	return record.Header{ProducerID: p, ProducerEpoch: epoch, BaseSequence: seq, LastOffsetDelta: n - 1, Count: n, MaxTimestamp: int64(seq) * 10}
}

func txn(h record.Header) record.Header {
	h.Attributes |= 1 << 4
	return h
}

// append puts h at the end of the log unless Check says otherwise.
func (l *log) append(h record.Header) (Verdict, error) {
	v, err := l.state.Check(h)
	if err != nil || v.Duplicate {
		return v, err
	}
	h.BaseOffset = l.state.End()
	l.headers = append(l.headers, h)
	l.state.Apply(h, nil, l.now)
	return Verdict{BaseOffset: h.BaseOffset, LastOffset: h.LastOffset()}, nil
}

func (l *log) appended(h record.Header) record.Offset {
	l.t.Helper()
	v, err := l.append(h)
	require.NoError(l.t, err)
	require.False(l.t, v.Duplicate)
	return v.BaseOffset
}

func (l *log) duplicate(h record.Header, at record.Offset) {
	l.t.Helper()
	v, err := l.append(h)
	require.NoError(l.t, err)
	require.True(l.t, v.Duplicate)
	require.Equal(l.t, at, v.BaseOffset)
	require.Equal(l.t, at+record.Offset(h.LastOffsetDelta), v.LastOffset)
	require.Equal(l.t, h.MaxTimestamp, v.Timestamp)
}

func (l *log) refused(h record.Header, want error) {
	l.t.Helper()
	_, err := l.append(h)
	require.ErrorIs(l.t, err, want)
}

// end writes a marker.
func (l *log) end(p int64, epoch int16, typ record.ControlType) (Ended, bool) {
	raw := record.ControlBatch(record.ControlOptions{Type: typ, ProducerID: p, ProducerEpoch: epoch, BaseOffset: l.state.End()})
	h, err := record.ParseHeader(raw)
	require.NoError(l.t, err)
	c := Control{Type: typ}
	l.headers = append(l.headers, h)
	l.markers[h.BaseOffset] = c
	return l.follow(h)
}

func (l *log) follow(h record.Header) (Ended, bool) {
	var c *Control
	if m, ok := l.markers[h.BaseOffset]; ok {
		c = &m
	}
	ended, ok := l.state.Apply(h, c, l.now)
	if ok && !ended.Commit {
		l.aborted.Add(ended.Aborted)
	}
	return ended, ok
}

// TestF4_Window: a retry of any of the last five batches is answered with its
// original offset, an older one is refused, and nothing is written twice; the same
// at a replica that only followed, and after a snapshot.
func TestF4_Window(t *testing.T) {
	l := newLog(t)
	for seq := range int32(6) {
		require.EqualValues(t, seq, l.appended(data(7, 0, seq, 1)))
	}
	follower := newLog(t)
	for _, h := range l.headers {
		follower.state.Apply(h, nil, 5)
	}
	restored, err := Decode(l.state.AppendTo(nil), 0)
	require.NoError(t, err)
	for name, s := range map[string]*State{"leader": l.state, "follower": follower.state, "restored": restored} {
		t.Run(name, func(t *testing.T) {
			l := &log{t: t, state: s}
			l.duplicate(data(7, 0, 1, 1), 1)
			l.duplicate(data(7, 0, 5, 1), 5)
			l.refused(data(7, 0, 0, 1), ErrDuplicateOlder)
			l.refused(data(7, 0, 2, 2), ErrDuplicateOlder) // overlaps, but is no batch of the log
			l.refused(data(7, 0, 7, 1), ErrOutOfOrderSequence)
			require.Empty(t, l.headers)
			require.EqualValues(t, 6, s.End())
		})
	}
}

// TestF5_EmptyLog: on a new partition only sequence 0 may be first, else a batch
// that overtook another would lock it out.
func TestF5_EmptyLog(t *testing.T) {
	l := newLog(t)
	l.refused(data(7, 0, 17, 5), ErrOutOfOrderSequence)
	require.EqualValues(t, 0, l.appended(data(7, 0, 0, 17)))
	require.EqualValues(t, 17, l.appended(data(7, 0, 17, 5)))
	require.EqualValues(t, 22, l.state.End())
}

// TestF6_ForgottenByTimeOnly: records may go, the state stays; once it expired the
// producer may go on anywhere.
func TestF6_ForgottenByTimeOnly(t *testing.T) {
	l := newLog(t)
	l.appended(data(7, 0, 0, 5))
	// DeleteRecords moves the log's start; nothing here knows of it.
	require.EqualValues(t, 5, l.appended(data(7, 0, 5, 1)))

	l.now = 2000
	l.appended(data(8, 0, 0, 1))
	require.Equal(t, 0, l.state.Expire(1500, 1000))
	require.Equal(t, 0, l.state.Expire(500, 1000), "a clock that went back expires nothing")
	require.Equal(t, 1, l.state.Expire(2000, 1000))
	require.Equal(t, 1, l.state.Len())
	require.EqualValues(t, 7, l.appended(data(7, 0, 6, 1)))
	l.refused(data(7, 0, 9, 1), ErrOutOfOrderSequence)
}

func TestExpireKeepsOpenTransactions(t *testing.T) {
	l := newLog(t)
	l.appended(txn(data(7, 0, 0, 5)))
	require.Equal(t, 0, l.state.Expire(1<<60, 1))
	l.end(7, 0, record.ControlCommit)
	require.Equal(t, 1, l.state.Expire(1<<60, 1))
}

// TestF17_SequenceWraps from 2^31-1 to 0.
func TestF17_SequenceWraps(t *testing.T) {
	l := newLog(t)
	l.appended(record.Header{ProducerID: -1, Count: 1}) // the log is not empty
	at := l.appended(data(7, 0, 2147483646, 4))
	l.refused(data(7, 0, 1, 1), ErrDuplicateOlder)
	l.duplicate(data(7, 0, 2147483646, 4), at)
	l.appended(data(7, 0, 2, 1))
	l.refused(data(7, 0, 4, 1), ErrOutOfOrderSequence)
	l.appended(data(8, 0, 2147483646, 2)) // ends with the largest number
	l.refused(data(8, 0, 1, 1), ErrOutOfOrderSequence)
	l.appended(data(8, 0, 0, 1))
}

func TestEpochs(t *testing.T) {
	l := newLog(t)
	l.appended(data(7, 1, 0, 3))
	l.refused(data(7, 0, 3, 1), ErrInvalidProducerEpoch)
	l.refused(data(7, 2, 3, 1), ErrOutOfOrderSequence) // a new epoch begins at 0
	l.appended(data(7, 2, 0, 1))
	l.refused(data(7, 1, 0, 3), ErrInvalidProducerEpoch) // not even as a duplicate
	l.appended(data(7, 2, 1, 1))
}

// TestMarkerBumpsTheEpoch: with KIP-890 the marker carries the next epoch, and the
// old one can write no more.
func TestMarkerBumpsTheEpoch(t *testing.T) {
	l := newLog(t)
	l.appended(txn(data(7, 0, 0, 3)))
	l.end(7, 1, record.ControlCommit)
	l.refused(txn(data(7, 0, 3, 1)), ErrInvalidProducerEpoch)
	l.refused(txn(data(7, 1, 3, 1)), ErrOutOfOrderSequence)
	l.appended(txn(data(7, 1, 0, 1)))
	require.ErrorIs(t, l.state.CheckMarker(7, 0, 0), ErrInvalidProducerEpoch)
	require.NoError(t, l.state.CheckMarker(7, 1, 0))
	require.NoError(t, l.state.CheckMarker(99, 0, 0))
}

func TestCoordinatorFenced(t *testing.T) {
	s := New(0, 0)
	s.Apply(record.Header{ProducerID: 7, Attributes: 1<<5 | 1<<4, BaseSequence: -1, Count: 1},
		&Control{Type: record.ControlCommit, CoordinatorEpoch: 5}, 0)
	require.ErrorIs(t, s.CheckMarker(7, 0, 4), ErrCoordinatorFenced)
	require.NoError(t, s.CheckMarker(7, 0, 5))
}

func TestTransactions(t *testing.T) {
	l := newLog(t)
	l.appended(data(1, 0, 0, 10))                    // 0..9
	l.appended(txn(data(2, 0, 0, 5)))                // 10..14
	l.appended(txn(data(3, 0, 0, 5)))                // 15..19
	l.appended(txn(data(2, 0, 5, 5)))                // 20..24
	l.refused(data(2, 0, 10, 1), ErrInvalidTxnState) // outside of its transaction
	first, epoch, ok := l.state.OpenTransaction(2)   //
	require.Equal(t, "10 0 true", fmt.Sprint(first, epoch, ok))
	require.Equal(t, "10 true", fmt.Sprint(l.state.FirstOpen()))

	ended, ok := l.end(2, 0, record.ControlAbort) // 25
	require.True(t, ok)
	require.Equal(t, Ended{Aborted{2, 10, 25, 15}, false}, ended)
	require.Equal(t, "15 true", fmt.Sprint(l.state.FirstOpen()))
	require.Equal(t, "10 true", fmt.Sprint(l.state.FirstUnstable(25)), "the marker is not below the high watermark")
	require.Equal(t, "15 true", fmt.Sprint(l.state.FirstUnstable(26)))
	l.state.Settle(26)
	require.Equal(t, "15 true", fmt.Sprint(l.state.FirstUnstable(0)))

	ended, ok = l.end(3, 0, record.ControlCommit) // 26
	require.True(t, ok)
	require.Equal(t, Ended{Aborted{3, 15, 26, 27}, true}, ended)
	_, ok = l.state.FirstOpen()
	require.False(t, ok)
	_, ok = l.end(3, 0, record.ControlCommit)
	require.False(t, ok, "nothing was open")
	require.Equal(t, AbortedList{{2, 10, 25, 15}}, l.aborted)
}

// TestEmptyBatchesOpenNothing: what compaction emptied is decided, and its marker
// may be gone.
func TestEmptyBatchesOpenNothing(t *testing.T) {
	l := newLog(t)
	h := txn(data(2, 0, 0, 5))
	h.Count = 0
	l.state.Apply(h, nil, 0)
	_, ok := l.state.FirstOpen()
	require.False(t, ok)
	require.EqualValues(t, 5, l.appended(txn(data(2, 0, 5, 1))), "but its sequence counts")
	control := record.Header{BaseOffset: 6, ProducerID: 2, Attributes: 1<<5 | 1<<4, BaseSequence: -1}
	_, ended := l.state.Apply(control, nil, 0)
	require.False(t, ended)
	require.EqualValues(t, 7, l.state.End())
}

// TestH11_TruncationTakesTheStateBack: the state at a cut is the snapshot below it
// and the batches between.
func TestH11_TruncationTakesTheStateBack(t *testing.T) {
	l := newLog(t)
	l.appended(txn(data(7, 0, 0, 10)))
	snapshot := l.state.AppendTo(nil)
	l.appended(txn(data(7, 0, 10, 10)))
	atCut := l.state.Clone()
	cut := l.state.End()
	l.appended(txn(data(7, 0, 20, 10)))
	l.end(7, 0, record.ControlAbort)
	require.Len(t, l.aborted, 1)

	var err error
	l.state, err = Decode(snapshot, 0)
	require.NoError(t, err)
	for _, h := range l.headers {
		if h.BaseOffset >= l.state.End() && h.NextOffset() <= cut {
			l.follow(h)
		}
	}
	l.aborted.TruncateTo(cut)
	require.Equal(t, atCut.AppendTo(nil), l.state.AppendTo(nil))
	require.Empty(t, l.aborted)
	require.Equal(t, "0 true", fmt.Sprint(l.state.FirstOpen()), "the transaction is open again")
	require.Equal(t, cut, l.appended(txn(data(7, 0, 20, 10))), "what was cut is no duplicate")
}

// TestP7_ProducersAreBounded: the longest idle goes first, never one with an open
// transaction.
func TestP7_ProducersAreBounded(t *testing.T) {
	s := New(1, 3)
	apply := func(h record.Header) {
		h.BaseOffset = s.End()
		s.Apply(h, nil, 0)
	}
	known := func() (ids []int64) {
		for id := range int64(20) {
			if s.find(id) != nil {
				ids = append(ids, id)
			}
		}
		return ids
	}
	apply(txn(data(1, 0, 0, 1)))
	apply(data(2, 0, 0, 1))
	apply(data(3, 0, 0, 1))
	apply(data(2, 0, 1, 1))
	apply(data(4, 0, 0, 1))
	require.Equal(t, []int64{1, 2, 4}, known())
	require.EqualValues(t, 1, s.Evicted())
	apply(txn(data(2, 0, 2, 1)))
	apply(txn(data(4, 0, 1, 1)))
	apply(txn(data(5, 0, 0, 1)))
	require.Equal(t, []int64{1, 2, 4, 5}, known(), "open transactions are kept even beyond the bound")
	small, err := Decode(s.AppendTo(nil), 2)
	require.NoError(t, err)
	require.Equal(t, 4, small.Len())
}
