package producer

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
)

func sample() *State {
	s := New(40, 0)
	s.Apply(record.Header{BaseOffset: 40, LastOffsetDelta: 9, Count: 10, ProducerID: 7, ProducerEpoch: 1, BaseSequence: 0, MaxTimestamp: 1700000000000}, nil, 1700000000123)
	h := txn(data(9, 3, 2147483640, 20))
	h.BaseOffset = 50
	s.Apply(h, nil, 1700000000456)
	s.Apply(record.Header{BaseOffset: 70, Count: 1, ProducerID: 7, ProducerEpoch: 2, BaseSequence: -1, Attributes: 1<<5 | 1<<4},
		&Control{record.ControlAbort, 12}, 1700000000789)
	return s
}

// TestGoldenSnapshot: version 1 stays readable, byte for byte.
func TestGoldenSnapshot(t *testing.T) {
	path := filepath.Join("testdata", "state-v1.bin")
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, sample().AppendTo(nil))
	s, err := Decode(want, 0)
	require.NoError(t, err)
	require.Equal(t, want, s.AppendTo(nil))
	require.EqualValues(t, 71, s.End())
}

func TestDecodeRefuses(t *testing.T) {
	good := sample().AppendTo(nil)
	for n := range good {
		_, err := Decode(good[:n], 0)
		require.ErrorIs(t, err, ErrSnapshot, "%d bytes", n)
	}
	for name, b := range map[string][]byte{
		"another version": append([]byte{2}, good[1:]...),
		"bytes after":     append(slices.Clone(good), 0),
		"many claimed":    append(binary.BigEndian.AppendUint32(slices.Clone(good[:9]), 1<<31), good[13:]...),
	} {
		_, err := Decode(b, 0)
		require.ErrorIs(t, err, ErrSnapshot, name)
	}
}

// TestStateTwin: random logs of random producers. A follower that starts from any
// snapshot of the leader ends in the same bytes; a retry of what is in the window
// is always found; and no batch is in the log twice.
func TestStateTwin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		leader, follower := New(0, 4), New(0, 4)
		open := map[int64]record.Offset{}
		next := map[int64]int32{}
		for step := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			id := rapid.Int64Range(1, 6).Draw(rt, "producer")
			at := int64(step)
			h := record.Header{ProducerID: id, BaseOffset: leader.End()}
			var c *Control
			if _, isOpen := open[id]; isOpen && rapid.Bool().Draw(rt, "end") {
				h.BaseSequence, h.Count, h.Attributes = -1, 1, 1<<4|1<<5
				c = &Control{Type: record.ControlType(rapid.IntRange(0, 1).Draw(rt, "type"))}
				delete(open, id)
			} else {
				n := rapid.Int32Range(1, 4).Draw(rt, "records")
				h = data(id, 0, next[id], n)
				h.BaseOffset = leader.End()
				if isOpen || rapid.Bool().Draw(rt, "txn") {
					h = txn(h)
				}
				v, err := leader.Check(h)
				if leader.find(id) != nil && leader.find(id).count > 0 || next[id] == 0 {
					require.NoError(rt, err)
				} else if err != nil {
					continue
				}
				require.False(rt, v.Duplicate)
				if h.IsTransactional() && !isOpen {
					open[id] = h.BaseOffset
				}
				next[id] += n
			}
			_, endedA := leader.Apply(h, c, at)
			_, endedB := follower.Apply(h, c, at)
			require.Equal(rt, endedA, endedB)
			if c == nil {
				v, err := leader.Check(h)
				require.NoError(rt, err)
				require.True(rt, v.Duplicate)
				require.Equal(rt, h.BaseOffset, v.BaseOffset)
			}
			want, found := record.Offset(1<<62), false
			for _, first := range open {
				want, found = min(want, first), true
			}
			got, ok := leader.FirstOpen()
			require.Equal(rt, found, ok)
			if ok {
				require.Equal(rt, want, got)
			}
			if rapid.IntRange(0, 5).Draw(rt, "restart") == 0 {
				var err error
				follower, err = Decode(leader.AppendTo(nil), 4)
				require.NoError(rt, err)
			}
			require.Equal(rt, leader.AppendTo(nil), follower.AppendTo(nil))
			require.Equal(rt, leader.AppendTo(nil), leader.Clone().AppendTo(nil))
		}
	})
}

func TestAbortedOverlapping(t *testing.T) {
	var l AbortedList
	for _, a := range []Aborted{{1, 10, 25, 15}, {2, 15, 40, 41}, {3, 50, 60, 61}, {1, 10, 25, 15}} {
		l.Add(a)
	}
	require.Len(t, l, 3)
	for _, r := range []struct {
		from, to record.Offset
		want     []int64
	}{
		{0, 10, nil}, {0, 11, []int64{1}}, {25, 26, []int64{1, 2}}, {26, 50, []int64{2}},
		{41, 50, nil}, {60, 100, []int64{3}}, {61, 100, nil}, {0, 100, []int64{1, 2, 3}}, {20, 20, nil},
	} {
		var got []int64
		for a := range l.Overlapping(r.from, r.to) {
			got = append(got, a.ProducerID)
		}
		require.Equal(t, r.want, got, "[%d, %d)", r.from, r.to)
	}
	b := append(l.AppendTo(nil), 9)
	again, rest, err := DecodeAborted(b)
	require.NoError(t, err)
	require.Equal(t, l, again)
	require.Equal(t, []byte{9}, rest)
	for n := range len(b) - 1 {
		_, _, err := DecodeAborted(b[:n])
		require.ErrorIs(t, err, ErrSnapshot)
	}
	l.TruncateTo(60)
	l.TrimBelow(26)
	require.Equal(t, AbortedList{{2, 15, 40, 41}}, l)
}

// TestMemory: ten thousand producers with full windows take at most 3 MB.
func TestMemory(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	s := New(1, 0)
	for seq := range int32(6) {
		for id := range int64(20_000) {
			h := data(id, 0, seq, 1)
			h.BaseOffset = s.End()
			s.Apply(h, nil, 0)
		}
	}
	used := heap() - before
	require.Equal(t, DefaultMaxProducers, s.Len())
	require.Less(t, used, uint64(3_000_000))
	t.Logf("%d bytes for %d producers", used, s.Len())
}

// FuzzProducerDecode: no input panics or takes memory beyond its size; what
// decodes encodes to the same bytes and goes on working.
func FuzzProducerDecode(f *testing.F) {
	f.Add(sample().AppendTo(nil))
	f.Add(New(0, 0).AppendTo(nil))
	f.Add(AbortedList{{2, 15, 40, 41}}.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, rest, err := DecodeAborted(b); err == nil {
			require.True(t, bytes.Equal(b, append(l.AppendTo(nil), rest...)))
		}
		s, err := Decode(b, 0)
		if err != nil {
			return
		}
		require.True(t, bytes.Equal(b, s.AppendTo(nil)))
		for id := range s.byID {
			h := data(id, 0, 3, 2)
			h.BaseOffset = s.End()
			_, _ = s.Check(h)
			s.Apply(h, nil, 1)
			s.Apply(h, &Control{}, 2)
		}
		s.Expire(1<<62, 1)
		require.Zero(t, s.Len())
	})
}

func BenchmarkCheckApply(b *testing.B) {
	s := New(1, 0)
	for id := range int64(DefaultMaxProducers) {
		h := data(id, 0, 0, 1)
		h.BaseOffset = s.End()
		s.Apply(h, nil, 0)
	}
	b.ReportAllocs()
	seq := int32(1)
	for b.Loop() {
		h := data(77, 0, seq, 1)
		h.BaseOffset = s.End()
		if _, err := s.Check(h); err != nil {
			b.Fatal(err)
		}
		s.Apply(h, nil, 0)
		seq = record.AddSequence(seq, 1)
	}
}
