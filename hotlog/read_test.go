package hotlog

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/segment"
	"tidemark/record"
)

func TestReadStartsAtTheBatchThatHoldsTheOffset(t *testing.T) {
	o := testOptions(t)
	o.Config.IndexIntervalBytes = 0
	l := open(t, o)
	for range 20 {
		add(t, l, plain(5, 0))
	}
	size := len(plain(5, 0))
	rows := []struct {
		story       string
		from, bound record.Offset
		maxBytes    int
		atLeastOne  bool
		want        string // "" is empty
	}{
		{"from a batch's first offset", 5, 15, 1 << 20, false, "5-9 10-14"},
		{"from a batch's inside", 7, 15, 1 << 20, false, "5-9 10-14"},
		{"a bound inside a batch keeps it out", 5, 14, 1 << 20, false, "5-9"},
		{"nothing fits below the bound", 5, 9, 1 << 20, true, ""},
		{"at the bound", 15, 15, 1 << 20, true, ""},
		{"beyond the bound", 20, 15, 1 << 20, true, ""},
		{"at the end", 100, 100, 1 << 20, true, ""},
		{"a bound beyond the end", 90, 1 << 40, 1 << 20, true, "90-94 95-99"},
		{"room for two", 5, 100, 2 * size, false, "5-9 10-14"},
		{"room for two and a half", 5, 100, 5 * size / 2, false, "5-9 10-14"},
		{"no room", 5, 100, size - 1, false, ""},
		{"no room, but one must come", 5, 100, 1, true, "5-9"},
		{"the last batch", 97, 100, 1 << 20, false, "95-99"},
	}
	for _, row := range rows {
		s, err := l.Read(row.from, row.bound, row.maxBytes, row.atLeastOne)
		require.NoError(t, err, row.story)
		if row.want == "" {
			require.Zero(t, s.Len, row.story)
			require.Equal(t, row.from, s.Next, row.story)
			continue
		}
		require.Equal(t, row.want, spans(headersOf(t, s)), row.story)
		s.Release()
	}
	_, err := l.Read(101, 200, 1, true)
	require.ErrorIs(t, err, ErrOutOfRange)
}

// Whoever reads at the head asks the log where the last append lies, not the file: a header that is spoilt there is not seen.
func TestAReadOfTheLastAppendLooksAtNoHeader(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	size := int64(len(plain(5, 0)))
	for range 3 {
		add(t, l, plain(5, 0))
	}
	f, err := os.OpenFile(logFile(o, 0, segment.LogSuffix), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(make([]byte, size), 2*size)
	require.NoError(t, err)
	require.NoError(t, f.Close())

	s, err := l.Read(10, 15, int(size), false)
	require.NoError(t, err)
	require.Equal(t, []int64{2 * size, size, 10, 15}, []int64{s.Pos, s.Len, int64(s.First), int64(s.Next)})
	s.Release()
	_, err = l.Read(11, 15, int(size), false)
	require.ErrorIs(t, err, record.ErrCorrupt, "from inside it the header is needed")
}

// TestH9_ReadSkipsNoHeldOffset: a batch whose records compaction took still holds
// its offsets; a reader inside them gets the batch and moves on.
func TestH9_ReadSkipsNoHeldOffset(t *testing.T) {
	l := open(t, testOptions(t))
	empty := record.NewBuilder(record.BuilderOptions{LastOffsetDelta: 9}).Build()
	req := request(t, empty)
	req.Follower = true
	_, err := l.Append(req)
	require.NoError(t, err)
	add(t, l, plain(1, 0))
	for from := range record.Offset(10) {
		s, err := l.Read(from, 11, 1<<20, false)
		require.NoError(t, err)
		require.Equal(t, "0-9 10-10", spans(headersOf(t, s)))
		s.Release()
	}
}

func TestEveryOffsetIsReadableAcrossSegments(t *testing.T) {
	o := small(testOptions(t))
	o.Files = NewFileLimit(2, 1) // sealed segments are opened and closed all the time
	l := open(t, o)
	fill(t, l, 95)
	require.Len(t, l.Segments(), 10)
	_, err := l.Flush()
	require.NoError(t, err)
	for from := range record.Offset(95) {
		got := read(t, l, from, 95)
		require.Len(t, got, int(95-from))
		require.Equal(t, from, got[0].BaseOffset)
	}
}

// TestA7_ARangeForUploadStandsStill: bytes, offsets and length are fixed when the
// range is taken, whatever is appended meanwhile.
func TestA7_ARangeForUploadStandsStill(t *testing.T) {
	l := open(t, small(testOptions(t)))
	fill(t, l, 27)
	s, err := l.Range(13, 18)
	require.NoError(t, err)
	before := bytesOf(t, s)
	require.Equal(t, record.Offset(13), s.First)
	require.Equal(t, record.Offset(18), s.Next)
	fill(t, l, 60)
	_, err = l.Free(50)
	require.NoError(t, err)
	require.Equal(t, before, bytesOf(t, s))
	require.Len(t, headersOf(t, s), 5)
	s.Release()
	whole, err := l.Range(50, 1<<40)
	require.NoError(t, err)
	require.Equal(t, record.Offset(60), whole.Next, "a range ends with its segment")
	whole.Release()
}

func TestASectionOutlivesItsSegment(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	fill(t, l, 35)
	s, err := l.Read(3, 35, 1<<20, true)
	require.NoError(t, err)
	want := bytesOf(t, s)
	freed, err := l.Free(20)
	require.NoError(t, err)
	require.Equal(t, 2*o.Config.SegmentBytes, freed)
	_, err = l.Read(3, 35, 1<<20, true)
	require.ErrorIs(t, err, ErrBelowLocal)
	require.Equal(t, want, bytesOf(t, s))
	require.NoError(t, l.Close())
	require.Equal(t, want, bytesOf(t, s))
	s.Release()
	s.Release()
	_, err = s.File.Stat()
	require.Error(t, err, "the last reader closes the file")
}

func TestATruncatedSectionEndsWithAnError(t *testing.T) {
	l := open(t, testOptions(t))
	fill(t, l, 10)
	s, err := l.Read(0, 10, 1<<20, true)
	require.NoError(t, err)
	defer s.Release()
	require.NoError(t, l.TruncateTo(5))
	_, err = s.ReadAt(make([]byte, s.Len), 0)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestB6_ReadersDuringFree: around localStart a reader sees its batch or
// ErrBelowLocal, never anything else.
func TestB6_ReadersDuringFree(t *testing.T) {
	o := small(testOptions(t))
	o.Files = NewFileLimit(4, 2)
	l := open(t, o)
	fill(t, l, 20)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range record.Offset(4) {
		wg.Go(func() {
			for !stop.Load() {
				b := l.Bounds()
				from := max(0, b.LocalStart-5+r*3)
				s, err := l.Read(from, b.End, 1000, true)
				if errors.Is(err, ErrBelowLocal) && from < l.Bounds().LocalStart {
					continue
				}
				if err != nil {
					t.Errorf("offset %d in [%d, %d): %v", from, b.LocalStart, b.End, err)
					return
				}
				buf := make([]byte, s.Len)
				if _, err := s.ReadAt(buf, 0); err != nil && s.Len > 0 {
					t.Error(err)
				}
				if h, err := record.ParseHeader(buf); s.Len > 0 && (err != nil || h.BaseOffset != from) {
					t.Errorf("asked %d, got %d: %v", from, h.BaseOffset, err)
				}
				s.Release()
			}
		})
	}
	for end := record.Offset(30); end <= 1000; end += 10 {
		fill(t, l, end)
		_, err := l.Free(end - 15)
		require.NoError(t, err)
	}
	stop.Store(true)
	wg.Wait()
}

func TestLookupsByTime(t *testing.T) {
	o := small(testOptions(t))
	o.Config.IndexIntervalBytes = 0
	l := open(t, o)
	times := []int64{10, 30, 20, 20, 5, 40, 35, 40, 1, 2, 3, 4, 50, 50, 45, 44, 43, 42, 41, 7, 8, 9, 60, 1, 2}
	for _, ts := range times {
		add(t, l, plain(1, ts))
	}
	require.Greater(t, len(l.Segments()), 2)
	check := func(l *Log) {
		for from := range record.Offset(len(times)) {
			for _, bound := range []record.Offset{5, 12, 20, 25} {
				for ts := int64(0); ts < 62; ts++ {
					p, ok, err := l.OffsetForTime(day+ts, from, bound)
					require.NoError(t, err)
					want, found := record.Offset(0), false
					for i := from; i < bound && !found; i++ {
						want, found = i, times[i] >= ts
					}
					require.Equal(t, found, ok, "time %d in [%d, %d)", ts, from, bound)
					if ok {
						require.Equal(t, TimePoint{want, day + times[want], 1}, p, "time %d in [%d, %d)", ts, from, bound)
					}
				}
				p, ok, err := l.MaxTimestamp(from, bound)
				require.NoError(t, err)
				best := record.Offset(-1)
				for i := from; i < bound; i++ {
					if best < 0 || times[i] > times[best] {
						best = i
					}
				}
				require.Equal(t, best >= 0, ok)
				if ok {
					require.Equal(t, TimePoint{best, day + times[best], 1}, p, "largest in [%d, %d)", from, bound)
				}
			}
		}
	}
	check(l)
	require.NoError(t, l.Close())
	check(open(t, o))
}

func TestLookupsByTimeLookIntoBatches(t *testing.T) {
	l := open(t, testOptions(t))
	add(t, l, plain(10, 0))  // times 0-9
	add(t, l, plain(10, 20)) // 20-29
	p, ok, err := l.OffsetForTime(day+5, 0, 20)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimePoint{5, day + 5, 1}, p)
	p, ok, err = l.OffsetForTime(day+5, 7, 20)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimePoint{7, day + 7, 1}, p)
	p, _, err = l.MaxTimestamp(3, 10)
	require.NoError(t, err)
	require.Equal(t, TimePoint{9, day + 9, 1}, p)
	_, ok, err = l.OffsetForTime(day+30, 0, 20)
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, l.Roll(RollTime))
	_, err = l.Free(20)
	require.NoError(t, err)
	_, _, err = l.OffsetForTime(day, 0, 20)
	require.ErrorIs(t, err, ErrBelowLocal)
	_, ok, err = l.MaxTimestamp(20, 20)
	require.NoError(t, err)
	require.False(t, ok)
}

// H5: of several records with the largest timestamp the first is the answer, wherever segments end.
func TestH5_TheFirstOfTheLargestTimestamps(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	for at := range 60 {
		stamp := int64(at)
		if at == 42 || at == 45 || at == 57 {
			stamp = 100
		}
		add(t, l, plain(1, stamp))
	}
	p, ok, err := l.MaxTimestamp(0, 60)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, TimePoint{Offset: 42, Timestamp: day + 100}, TimePoint{Offset: p.Offset, Timestamp: p.Timestamp})
	p, _, err = l.MaxTimestamp(46, 60)
	require.NoError(t, err)
	require.EqualValues(t, 57, p.Offset)
}
