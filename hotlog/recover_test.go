package hotlog

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/segment"
	"tidemark/record"
)

// logFile is the path of a segment's file.
func logFile(o Options, base record.Offset, suffix string) string {
	return filepath.Join(o.Dir, segment.Name(base, suffix))
}

func appendTo(t *testing.T, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestTornTails: a process that was killed in the middle of a write leaves a part
// of a batch; what was whole before it stays, and the log goes on.
func TestTornTails(t *testing.T) {
	next := plain(1, 35)
	record.StampOffset(next, 35, 1)
	flipped := bytes.Clone(next)
	flipped[len(flipped)-1] ^= 1
	farther := bytes.Clone(next)
	record.StampOffset(farther, 36, 1)
	rows := []struct {
		story string
		tail  []byte
		end   record.Offset
		why   segment.Stop
	}{
		{"nothing torn", nil, 35, segment.StopNone},
		{"a whole batch that was never acknowledged", next, 36, segment.StopNone},
		{"one byte, which is zero", next[:1], 35, segment.StopZeros},
		{"the front of an offset", next[:8], 35, segment.StopTorn},
		{"a part of a header", next[:40], 35, segment.StopTorn},
		{"a header", next[:record.HeaderSize], 35, segment.StopTorn},
		{"all but a byte", next[:len(next)-1], 35, segment.StopTorn},
		{"a batch, then a part of one", append(bytes.Clone(next), farther[:70]...), 36, segment.StopTorn},
		{"zeros shorter than a header", make([]byte, 7), 35, segment.StopZeros},
		{"a page of zeros", make([]byte, 4096), 35, segment.StopZeros},
		{"a flipped bit", flipped, 35, segment.StopBad},
		{"rubbish", bytes.Repeat([]byte{0xa5}, 300), 35, segment.StopBad},
		{"a batch of another place", farther, 35, segment.StopOrder},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			o := small(testOptions(t))
			l := open(t, o)
			fill(t, l, 35)
			kill(l)
			appendTo(t, logFile(o, 30, segment.LogSuffix), row.tail)
			l = open(t, o)
			require.Equal(t, row.end, l.Bounds().End)
			require.Equal(t, string(row.why), l.Recovered().Why)
			if row.tail != nil {
				require.NotZero(t, l.Recovered().Scanned)
			}
			fill(t, l, 50)
			require.Len(t, read(t, l, 0, 50), 50)
			require.NoError(t, l.Close())
			l = open(t, o)
			require.Zero(t, l.Recovered())
			require.Len(t, read(t, l, 0, 50), 50)
		})
	}
}

// TestI2_EpochCheckpointInAnyState: the broker starts, and knows the epochs.
func TestI2_EpochCheckpointInAnyState(t *testing.T) {
	rows := map[string]func(t *testing.T, name string){
		"absent": func(t *testing.T, name string) { require.NoError(t, os.Remove(name)) },
		"empty":  func(t *testing.T, name string) { require.NoError(t, os.Truncate(name, 0)) },
		"torn":   func(t *testing.T, name string) { require.NoError(t, os.Truncate(name, 20)) },
		"rubbish": func(t *testing.T, name string) {
			require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte{7}, 90), 0o644))
		},
		"a temp aside": func(t *testing.T, name string) { require.NoError(t, os.WriteFile(name+".tmp", []byte("x"), 0o644)) },
	}
	for story, damage := range rows {
		t.Run(story, func(t *testing.T) {
			o := small(testOptions(t))
			l := open(t, o)
			fill(t, l, 12)
			for _, epoch := range []record.Epoch{3, 8} {
				req := request(t, plain(1, 0), plain(1, 0))
				req.Epoch = epoch
				_, err := l.Append(req)
				require.NoError(t, err)
			}
			want := l.Epochs()
			require.Len(t, want.Entries(), 3)
			require.NoError(t, l.Close())
			damage(t, filepath.Join(o.Dir, epochsFile))
			l = open(t, o)
			require.Equal(t, want, l.Epochs())
			_, err := os.Stat(filepath.Join(o.Dir, epochsFile+".tmp"))
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// TestI4_ARecoveryPointBeyondTheLogIsNotTrusted: a clean mark or not, the log is
// scanned and ends where its batches do.
func TestI4_ARecoveryPointBeyondTheLogIsNotTrusted(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	fill(t, l, 100)
	require.NoError(t, l.Close())
	size := int64(len(plain(1, 0)))
	require.NoError(t, os.Truncate(logFile(o, 0, segment.LogSuffix), 80*size))
	l = open(t, o)
	require.Equal(t, record.Offset(80), l.Bounds().End)
	require.Equal(t, 80*size, l.Recovered().Scanned)
	require.Len(t, read(t, l, 0, 80), 80)
	require.Equal(t, record.Offset(80), l.Producers().End())
}

func TestI4_AShortLogOfManySegmentsIsScannedWhole(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	fill(t, l, 100)
	require.NoError(t, l.Close())
	for base := record.Offset(90); base > 70; base -= 10 {
		require.NoError(t, os.Remove(logFile(o, base, segment.LogSuffix)))
	}
	require.NoError(t, os.Truncate(logFile(o, 70, segment.LogSuffix), 100))
	l = open(t, o)
	require.Equal(t, record.Offset(71), l.Bounds().End)
	fill(t, l, 75)
	require.Len(t, read(t, l, 0, 75), 75)
}

// TestI6_IndexesInAnyState: they are made again, and a start takes bounded time.
func TestI6_IndexesInAnyState(t *testing.T) {
	rows := map[string]func(t *testing.T, name string){
		"absent":    func(t *testing.T, name string) { require.NoError(t, os.RemoveAll(name)) },
		"empty":     func(t *testing.T, name string) { require.NoError(t, os.WriteFile(name, nil, 0o644)) },
		"a part":    func(t *testing.T, name string) { require.NoError(t, os.Truncate(name, 3)) },
		"zeros":     func(t *testing.T, name string) { require.NoError(t, os.WriteFile(name, make([]byte, 240), 0o644)) },
		"too long":  func(t *testing.T, name string) { appendTo(t, name, bytes.Repeat([]byte{0x11}, 24)) },
		"last=base": func(t *testing.T, name string) { require.NoError(t, os.WriteFile(name, make([]byte, 24), 0o644)) },
		"backwards": func(t *testing.T, name string) {
			require.NoError(t, os.WriteFile(name, []byte("\x00\x00\x00\x05\x00\x00\x01\x00\x00\x00\x00\x04\x00\x00\x02\x00\x00\x00\x00\x04\x00\x00\x02\x00"), 0o644))
		},
	}
	for story, damage := range rows {
		for _, suffix := range []string{segment.IndexSuffix, segment.TimeSuffix} {
			t.Run(story+suffix, func(t *testing.T) {
				o := small(testOptions(t))
				o.Config.IndexIntervalBytes = 0
				l := open(t, o)
				fill(t, l, 35)
				require.NoError(t, l.Close())
				for _, base := range []record.Offset{0, 10, 30} {
					damage(t, logFile(o, base, suffix))
				}
				l = open(t, o)
				require.Equal(t, record.Offset(35), l.Bounds().End)
				for at := range record.Offset(35) {
					require.Equal(t, at, read(t, l, at, 35)[0].BaseOffset)
					p, ok, err := l.OffsetForTime(day+int64(at), 0, 35)
					require.NoError(t, err)
					require.True(t, ok)
					require.Equal(t, at, p.Offset)
				}
			})
		}
	}
}

func TestI6_AnEmptyActiveSegmentWithoutIndexIsFine(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	fill(t, l, 10)
	require.NoError(t, l.Roll(RollTime))
	require.NoError(t, l.Roll(RollTime), "an empty segment is never rolled")
	require.Len(t, l.Segments(), 2)
	kill(l)
	l = open(t, o)
	require.Len(t, l.Segments(), 2)
	require.Equal(t, record.Offset(10), l.Bounds().End)
	_, err := l.Free(10)
	require.NoError(t, err)
	require.Equal(t, record.Offset(10), l.Bounds().LocalStart, "all is freed: localStart = leo")
	require.NoError(t, l.Close())
	l = open(t, o)
	require.Equal(t, Bounds{LocalStart: 10, End: 10, Flushed: 10, Acked: 10}, l.Bounds())
	fill(t, l, 12)
}

// TestE5_ALogBelowNothing: the local log begins at 80; it opens, and goes on there.
func TestE5_ALogBelowNothing(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	fill(t, l, 95)
	_, err := l.Free(80)
	require.NoError(t, err)
	kill(l)
	require.NoError(t, os.Remove(filepath.Join(o.Dir, pointFile)))
	l = open(t, o)
	require.Equal(t, record.Offset(80), l.Bounds().LocalStart)
	require.Equal(t, record.Offset(95), add(t, l, plain(1, 0)).Base)
	require.ErrorIs(t, l.TruncateTo(79), ErrBelowLocal)
	require.NoError(t, l.TruncateTo(80))
	require.Equal(t, record.Offset(80), l.Bounds().End)
}

func TestDamageInTheMiddleOfWhatIsScannedEndsTheLogThere(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	fill(t, l, 35)
	kill(l)
	require.NoError(t, os.Remove(filepath.Join(o.Dir, pointFile)))
	name := logFile(o, 10, segment.LogSuffix)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	b[len(b)/2+70] ^= 0x40
	require.NoError(t, os.WriteFile(name, b, 0o644))
	l = open(t, o)
	require.Equal(t, record.Offset(15), l.Bounds().End)
	require.Positive(t, l.Recovered().Cut)
	fill(t, l, 40)
	require.Len(t, read(t, l, 0, 40), 40)
}

// TestH23_AResetBeginsWithTheTiersState, and a crash at any step ends in the old log
// or the new one: see the power cuts. Here: the plan is found at the start.
func TestH23_AResetBeginsWithTheTiersState(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	for seq := range int32(20) {
		add(t, l, from(7, 0, seq, 1))
	}
	state := l.Producers()
	var epochs record.EpochHistory
	epochs.Assign(1, 0)
	epochs.Assign(5, 90)
	require.NoError(t, l.Reset(100, epochs, state))
	check := func() {
		require.Equal(t, record.Offset(100), l.Bounds().LocalStart)
		require.Equal(t, epochs, l.Epochs())
		require.Equal(t, record.Offset(100), l.Producers().End())
		require.Len(t, l.Segments(), 1)
		_, err := l.Read(50, 100, 1, true)
		require.ErrorIs(t, err, ErrBelowLocal)
	}
	check()
	kill(l)
	l = open(t, o)
	check()
	require.Equal(t, record.Offset(100), add(t, l, from(7, 0, 20, 1)).Base)
	kill(l)
	plan := resetPlan{start: 300, epochs: epochs, state: l.Producers().AppendTo(nil)}
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, resetFile), sealReset(plan), 0o644))
	l = open(t, o)
	require.Equal(t, record.Offset(300), l.Bounds().End)
	_, err := os.Stat(filepath.Join(o.Dir, resetFile))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorIs(t, l.Reset(10, epochs, l.Producers()), ErrBadAppend, "a state from above the new start")
}

// The tier's state may hold a transaction whose marker lies above tiered (R6 lets the data go once it is
// decided): a follower gets the marker from its leader; a leader that begins there ends it first (R18).
func TestR18_ResetWithAnOpenTransaction(t *testing.T) {
	from := open(t, testOptions(t))
	add(t, from, inTxn(9, 0, 0, 1))
	state := from.Producers()

	follower := open(t, testOptions(t))
	require.NoError(t, follower.Reset(9, record.EpochHistory{}, state))
	first, undecided := follower.FirstUndecided(9)
	require.True(t, undecided)
	require.Equal(t, record.Offset(0), first)

	state.EndOpen()
	leader := open(t, testOptions(t))
	require.NoError(t, leader.Reset(9, record.EpochHistory{}, state))
	_, undecided = leader.FirstUndecided(9)
	require.False(t, undecided)
}

func TestProducerStateSurvivesLostSnapshots(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	for seq := range int32(45) {
		add(t, l, from(7, 0, seq, 1))
	}
	want := l.Producers().Len()
	require.NoError(t, l.Close())
	names, err := filepath.Glob(filepath.Join(o.Dir, "*"+segment.SnapshotSuffix))
	require.NoError(t, err)
	require.Greater(t, len(names), 3)
	for i, name := range names {
		if i%2 == 0 {
			require.NoError(t, os.Truncate(name, 10))
		} else {
			require.NoError(t, os.Remove(name))
		}
	}
	l = open(t, o)
	require.Equal(t, want, l.Producers().Len())
	require.True(t, add(t, l, from(7, 0, 44, 1)).Duplicate)
	require.False(t, add(t, l, from(7, 0, 45, 1)).Duplicate)
}

func TestSegmentAgesAreMonotonicAndOutliveARestart(t *testing.T) {
	o := testOptions(t)
	clock := &clockAt{time.UnixMilli(day)}
	o.Clock = clock.clock()
	l := open(t, o)
	require.Zero(t, l.Segments()[0].FirstAppendWall)
	add(t, l, plain(1, 0))
	clock.wall = clock.wall.Add(time.Minute)
	req := request(t, plain(1, 0))
	req.AppendTime = day + 60_000
	_, err := l.Append(req)
	require.NoError(t, err)
	s := l.Segments()[0]
	require.Equal(t, day, s.FirstAppendWall)
	require.Equal(t, day+60_000, s.LastAppendWall)
	require.Equal(t, time.Second, s.FirstAppendMono)
	require.NoError(t, l.Close())
	clock = &clockAt{time.UnixMilli(day).Add(time.Hour)}
	o.Clock = clock.clock()
	l = open(t, o)
	s = l.Segments()[0]
	require.Equal(t, day, s.FirstAppendWall)
	require.Equal(t, time.Second-time.Hour, s.FirstAppendMono)
}

func TestOpenEndsWhenItsContextDoes(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	fill(t, l, 5)
	kill(l)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Open(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, record.Offset(5), open(t, o).Bounds().End)
}

func TestOptionsReportEveryFault(t *testing.T) {
	_, err := Open(context.Background(), Options{Config: Config{SegmentBytes: -1}})
	for _, text := range []string{"no directory", "segment bytes -1", "max producers 0", "producer expiry"} {
		require.ErrorContains(t, err, text)
	}
	l := open(t, testOptions(t))
	require.Error(t, l.SetConfig(Config{}))
	require.NoError(t, l.SetConfig(DefaultConfig()))
}

// TestAnIdleLogClosesWithoutAWrite: ten thousand of them stop at once.
func TestAnIdleLogClosesWithoutAWrite(t *testing.T) {
	o := testOptions(t)
	l := open(t, o)
	add(t, l, from(7, 0, 0, 3))
	require.NoError(t, l.Close())
	l, fs, _ := faulty(t, o)
	require.NoError(t, l.Close())
	require.Empty(t, fs.Trace())
	l = open(t, o)
	require.True(t, add(t, l, from(7, 0, 0, 3)).Duplicate)
}

// What a scan finds beyond the last flush counts at once, where only what is synced counts: nobody may ever append.
func TestAScannedTailOfASyncedLogCounts(t *testing.T) {
	o := testOptions(t)
	l, err := Open(context.Background(), o)
	require.NoError(t, err)
	add(t, l, plain(3, 0))
	kill(l)
	o.Config.FlushMessages = 1
	l = open(t, o)
	require.Equal(t, Bounds{End: 3, Flushed: 3, Acked: 3}, l.Bounds())
}
