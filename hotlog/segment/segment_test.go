package segment

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
	"tidemark/record/producer"
)

// run is a file of batches of the given record counts, from base on.
func run(base record.Offset, counts ...int) []byte {
	var file []byte
	for _, n := range counts {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
		for i := range n {
			b.Add(int64(base)*10+int64(i), []byte("k"), []byte("v"))
		}
		file = b.AppendTo(file)
		base += record.Offset(n)
	}
	return file
}

func TestNamesAreKafkas(t *testing.T) {
	require.Equal(t, "00000000000000000042.log", Name(42, LogSuffix))
	base, suffix, ok := ParseName("09223372036854775807.timeindex")
	require.True(t, ok)
	require.Equal(t, record.Offset(1<<63-1), base)
	require.Equal(t, TimeSuffix, suffix)
	for _, name := range []string{"42.log", "0000000000000000004x.log", "-0000000000000000042.log", "00000000000000000042", "00000000000000000042.tmp", ".log"} {
		_, _, ok := ParseName(name)
		require.False(t, ok, name)
	}
}

func TestAnIndexFindsEveryOffsetAndTime(t *testing.T) {
	file := run(100, 3, 1, 4, 1, 5, 9, 2, 6)
	for _, interval := range []int{0, 100, 300, 5000} {
		x := Index{Base: 100}
		peak := NoPeak(100)
		starts := map[record.Offset]int64{}
		var bases []record.Offset
		scanned, err := Scan(bytes.NewReader(file), 100, int64(len(file)), func(h record.Header, pos int64, _ []byte) error {
			peak = peak.With(h.MaxTimestamp, h.LastOffset())
			x.Add(h, pos, interval, peak)
			bases = append(bases, h.BaseOffset)
			for o := h.BaseOffset; o < h.NextOffset(); o++ {
				starts[o] = pos
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, Scanned{Good: int64(len(file)), Next: 131}, scanned)
		x.Finish(peak)
		for o, pos := range starts {
			require.LessOrEqual(t, x.Floor(o), pos)
		}
		for _, o := range bases {
			require.LessOrEqual(t, x.FloorTime(int64(o)*10), o)
		}
		again, err := DecodeIndex(AppendOffsets(nil, x.Offsets), AppendTimes(nil, x.Times), 100, 131, int64(len(file)))
		require.NoError(t, err)
		require.Equal(t, x.Offsets, again.Offsets)
		require.Equal(t, x.Times, again.Times)
		require.Equal(t, x.since, again.since)
		cut := starts[120]
		x.TruncateTo(114, cut)
		for _, e := range x.Offsets {
			require.Less(t, int64(e.Pos), cut)
		}
		for _, e := range x.Times {
			require.Less(t, int64(e.Rel), int64(14))
		}
	}
}

func TestADamagedIndexIsRefused(t *testing.T) {
	good := AppendOffsets(nil, []OffsetEntry{{3, 100}, {7, 300}})
	times := AppendTimes(nil, []TimeEntry{{50, 3}, {60, 7}})
	_, err := DecodeIndex(good, times, 0, 10, 400)
	require.NoError(t, err)
	for story, bad := range map[string][2][]byte{
		"cut":                {good[:9], times},
		"zeros behind":       {append(bytes.Clone(good), make([]byte, 8)...), times},
		"beyond the offsets": {AppendOffsets(nil, []OffsetEntry{{10, 100}}), times},
		"beyond the file":    {AppendOffsets(nil, []OffsetEntry{{3, 400}}), times},
		"position 0":         {AppendOffsets(nil, []OffsetEntry{{3, 0}}), times},
		"times cut":          {good, times[:13]},
		"times fall":         {good, AppendTimes(nil, []TimeEntry{{60, 3}, {50, 7}})},
		"times beyond":       {good, AppendTimes(nil, []TimeEntry{{60, 11}})},
	} {
		_, err := DecodeIndex(bad[0], bad[1], 0, 10, 400)
		require.ErrorIs(t, err, ErrIndex, story)
	}
}

func TestTheTransactionIndexIsKafkas(t *testing.T) {
	a := producer.Aborted{ProducerID: 7, First: 5, Last: 9, LastStable: 7}
	b := AppendTxns(nil, []producer.Aborted{a})
	require.Equal(t, "\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x07"+"\x00\x00\x00\x00\x00\x00\x00\x05"+
		"\x00\x00\x00\x00\x00\x00\x00\x09"+"\x00\x00\x00\x00\x00\x00\x00\x07", string(b))
	list, err := DecodeTxns(nil, b, 5, 10)
	require.NoError(t, err)
	require.Equal(t, producer.AbortedList{a}, list)
	for story, bad := range map[string][]byte{
		"cut": b[:33], "twice": append(bytes.Clone(b), b...), "zeros": make([]byte, 34), "version": append([]byte{1}, b[1:]...),
	} {
		_, err := DecodeTxns(nil, bad, 5, 10)
		require.ErrorIs(t, err, ErrIndex, story)
	}
}

func TestAWalkEndsWhereTheBatchesDo(t *testing.T) {
	file := run(0, 2, 300, 1, 1)
	var w Walker
	w.Reset(bytes.NewReader(file), 0, int64(len(file)))
	var ends []record.Offset
	for w.Next() {
		ends = append(ends, w.Header().NextOffset())
	}
	require.NoError(t, w.Err())
	require.Equal(t, []record.Offset{2, 302, 303, 304}, ends)
	require.Equal(t, int64(len(file)), w.After())
	w.Reset(bytes.NewReader(file), 0, int64(len(file)-1))
	for w.Next() {
	}
	require.ErrorIs(t, w.Err(), record.ErrTruncated)
	w.Reset(bytes.NewReader(make([]byte, 100)), 0, 100)
	require.False(t, w.Next())
	require.ErrorIs(t, w.Err(), record.ErrCorrupt)
}

func FuzzDecodeIndex(f *testing.F) {
	f.Add(AppendOffsets(nil, []OffsetEntry{{3, 100}, {7, 300}}), AppendTimes(nil, []TimeEntry{{50, 3}}), int64(400))
	f.Add([]byte{}, []byte{}, int64(0))
	f.Fuzz(func(t *testing.T, offsets, times []byte, size int64) {
		x, err := DecodeIndex(offsets, times, 0, 1<<31, size)
		if err != nil {
			return
		}
		for _, o := range []record.Offset{0, 1, 1 << 20, 1 << 31} {
			if pos := x.Floor(o); pos < 0 || pos != 0 && pos >= size {
				t.Fatalf("offset %d at %d of %d", o, pos, size)
			}
		}
		if !bytes.Equal(AppendOffsets(nil, x.Offsets), offsets) || !bytes.Equal(AppendTimes(nil, x.Times), times) {
			t.Fatal("does not encode to what was read")
		}
	})
}

func FuzzScan(f *testing.F) {
	f.Add(run(0, 1, 2, 3))
	f.Add(run(0, 1, 2, 3)[:100])
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, file []byte) {
		next := record.Offset(0)
		out, err := Scan(bytes.NewReader(file), 0, int64(len(file)), func(h record.Header, pos int64, batch []byte) error {
			if h.BaseOffset != next || !bytes.Equal(file[pos:pos+int64(len(batch))], batch) {
				t.Fatalf("batch at %d, want %d", h.BaseOffset, next)
			}
			next = h.NextOffset()
			return nil
		})
		if err != nil || out.Next != next || out.Good > int64(len(file)) || (out.Stop == StopNone) != (out.Good == int64(len(file))) {
			t.Fatalf("%+v, %v", out, err)
		}
	})
}
