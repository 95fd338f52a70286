package hotlog

import (
	"context"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// faulty is a log on a file system that obeys the test.
func faulty(t *testing.T, o Options) (*Log, *disktest.FS, Options) {
	t.Helper()
	fs := disktest.New(filepath.Dir(o.Dir))
	o.FS = fs
	return open(t, o), fs, o
}

// TestH28_AFailedWriteEndsTheLog: nothing is tried again, nothing half written is
// visible, and the next process cuts it.
func TestH28_AFailedWriteEndsTheLog(t *testing.T) {
	l, fs, o := faulty(t, testOptions(t))
	fill(t, l, 5)
	fs.Fail(disktest.Fault{Op: "write", Name: ".log", Times: 1, Err: syscall.EIO, Partial: 30})
	_, err := l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrFailed)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, l.Failed(), ErrFailed)
	fs.Trace()
	for name, call := range map[string]func() error{
		"append":   func() error { _, err := l.Append(request(t, plain(1, 0))); return err },
		"roll":     func() error { return l.Roll(RollTime) },
		"flush":    func() error { _, err := l.Flush(); return err },
		"free":     func() error { _, err := l.Free(9); return err },
		"truncate": func() error { return l.TruncateTo(1) },
		"reset":    func() error { return l.Reset(1, record.EpochHistory{}, nil) },
		"epoch":    func() error { return l.AssignEpoch(9) },
	} {
		require.ErrorIs(t, call(), ErrFailed, name)
	}
	require.Len(t, read(t, l, 0, 5), 5, "what was written stays readable")
	require.NoError(t, l.Close())
	require.Empty(t, fs.Trace(), "a failed log is not touched again, not even by Close")
	o.FS = nil
	l = open(t, o)
	require.Equal(t, record.Offset(5), l.Bounds().End)
	require.Equal(t, int64(30), l.Recovered().Cut)
}

func TestH28_AFailedFsyncEndsTheLog(t *testing.T) {
	o := testOptions(t)
	o.Config.FlushMessages = 1
	l, fs, _ := faulty(t, o)
	fill(t, l, 5)
	require.Equal(t, record.Offset(5), l.Bounds().Acked)
	fs.Fail(disktest.Fault{Op: "sync", Name: ".log", Times: 1, Err: syscall.EIO})
	_, err := l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrFailed)
	require.Equal(t, record.Offset(5), l.Bounds().Acked, "what no fsync covered counts for nothing")
	_, err = l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrFailed)
}

func TestH28_ABackgroundFlushThatFailsEndsTheLogToo(t *testing.T) {
	l, fs, _ := faulty(t, small(testOptions(t)))
	fs.Fail(disktest.Fault{Op: "sync", Name: ".log", Err: syscall.EIO})
	fill(t, l, 5)
	require.NoError(t, l.Roll(RollTime))
	require.Eventually(t, func() bool { return l.Failed() != nil }, time.Minute, time.Millisecond)
}

// TestH18_AFullDiskIsNoFailure: the half-written batch is cut back, the append may
// be tried again, and the log goes on by itself (L1).
func TestH18_AFullDiskIsNoFailure(t *testing.T) {
	o := small(testOptions(t))
	l, fs, _ := faulty(t, o)
	fill(t, l, 5)
	fs.Fail(disktest.Fault{Op: "write", Name: ".log", Err: syscall.ENOSPC, Partial: 50})
	for range 3 {
		_, err := l.Append(request(t, plain(1, 0)))
		require.ErrorIs(t, err, ErrDiskFull)
		require.NotErrorIs(t, err, ErrFailed)
	}
	require.Len(t, read(t, l, 0, 5), 5)
	fs.Heal()
	fs.Fail(disktest.Fault{Op: "create", Err: syscall.ENOSPC})
	require.ErrorIs(t, l.Roll(RollPressure), ErrDiskFull)
	fill(t, l, 10)
	_, err := l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrDiskFull, "no room for the next segment")
	_, err = l.Flush()
	require.ErrorIs(t, err, ErrDiskFull, "the point cannot be stored")
	require.Equal(t, record.Offset(10), l.Bounds().Flushed, "but the data is synced")
	fs.Heal()
	fill(t, l, 25)
	require.Len(t, read(t, l, 0, 25), 25)
	require.NoError(t, l.Failed())
}

// TestH18_AFullDiskStarts: recovery of an unclean log needs no space, nor does
// freeing and truncating afterwards.
func TestH18_AFullDiskStarts(t *testing.T) {
	o := small(testOptions(t))
	l := open(t, o)
	fill(t, l, 35)
	_, err := l.Flush()
	require.NoError(t, err)
	fill(t, l, 37)
	kill(l)
	appendTo(t, logFile(o, 30, ".log"), []byte("torn"))
	fs := disktest.New(filepath.Dir(o.Dir))
	for _, op := range []string{"create", "write"} {
		fs.Fail(disktest.Fault{Op: op, Err: syscall.ENOSPC})
	}
	o.FS = fs
	l, err = Open(context.Background(), o)
	require.NoError(t, err)
	require.Len(t, read(t, l, 0, 37), 37)
	freed, err := l.Free(20)
	require.NoError(t, err)
	require.Positive(t, freed)
	require.NoError(t, l.TruncateTo(33))
	require.Len(t, read(t, l, 20, 33), 13)
	fs.Heal()
	fill(t, l, 45)
	require.NoError(t, l.Close())
	l = open(t, o)
	require.Zero(t, l.Recovered().Scanned)
	require.Len(t, read(t, l, 20, 45), 25)
}

// A segment that could not be freed to its end is there again after a start, and so are its aborted transactions: where
// they began is no longer known.
func TestASegmentThatComesBackHasItsAbortedTransactions(t *testing.T) {
	l, fs, o := faulty(t, testOptions(t))
	add(t, l, inTxn(7, 0, 0, 2)) // 0-1
	require.NoError(t, l.Roll(RollTime))
	add(t, l, plain(1, 0))
	add(t, l, marker(7, 0, record.ControlAbort)) // 3
	require.NoError(t, l.Roll(RollTime))
	add(t, l, plain(1, 0))
	_, err := l.Flush()
	require.NoError(t, err)
	_, err = l.Free(2)
	require.NoError(t, err)
	fs.Fail(disktest.Fault{Op: "remove", Name: logFile(Options{}, 2, ".log"), Times: 1, Err: syscall.EIO})
	_, err = l.Free(4)
	require.ErrorIs(t, err, syscall.EIO)
	kill(l)
	o.FS = nil
	l = open(t, o)
	require.Equal(t, record.Offset(2), l.Bounds().LocalStart)
	got := l.Aborted(2, 5)
	require.Len(t, got, 1)
	require.Equal(t, record.Offset(3), got[0].Last)
}

func TestFlushMessagesSyncsBeforeTheAnswer(t *testing.T) {
	o := testOptions(t)
	o.Config.FlushMessages = 1
	l, fs, _ := faulty(t, o)
	for range 5 {
		out := add(t, l, plain(1, 0))
		require.GreaterOrEqual(t, l.Bounds().Flushed, out.Next)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				out, err := l.Append(request(t, plain(1, 0)))
				if err != nil || l.Bounds().Flushed < out.Next {
					t.Errorf("%+v, flushed %d, %v", out, l.Bounds().Flushed, err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, record.Offset(165), l.Bounds().Acked)
	fs.Trace()
	c := o.Config
	c.FlushMessages = 10
	require.NoError(t, l.SetConfig(c))
	for i := range 9 {
		add(t, l, plain(1, 0))
		require.Equal(t, record.Offset(165), l.Bounds().Flushed, i)
	}
	add(t, l, plain(1, 0))
	require.Equal(t, record.Offset(175), l.Bounds().Flushed)
}

func TestFlushIsDueAfterTheInterval(t *testing.T) {
	o := testOptions(t)
	clock := &clockAt{time.UnixMilli(day)}
	o.Clock = clock.clock()
	o.Config.FlushInterval = time.Second
	l := open(t, o)
	waits := func(want time.Duration, is bool) {
		t.Helper()
		left, waiting := l.FlushIn()
		require.Equal(t, is, waiting)
		require.Equal(t, want, left)
	}
	waits(0, false)
	add(t, l, plain(1, 0))
	clock.wall = clock.wall.Add(999 * time.Millisecond)
	add(t, l, plain(1, 0))
	waits(time.Millisecond, true)
	clock.wall = clock.wall.Add(time.Millisecond)
	waits(0, true)
	point, err := l.Flush()
	require.NoError(t, err)
	require.Equal(t, record.Offset(2), point)
	waits(0, false)
}
