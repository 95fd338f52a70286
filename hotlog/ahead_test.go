package hotlog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/disk/disktest"
	"tidemark/hotlog/segment"
	"tidemark/record"
)

// aheadBy is what a data directory with much space has, with other steps.
func aheadBy(after, step int64) *aheads {
	a := newAheads("", 0)
	a.after, a.step = after, step
	a.space = func() (int64, int64, error) { return 1 << 40, 1 << 40, nil }
	return a
}

const (
	testAfter = 256 << 10
	testStep  = 1 << 20
)

// growing is a log that has blocks ahead of its appends, in segments of 4 MiB.
func growing(t *testing.T) (*Log, *disktest.FS, Options) {
	t.Helper()
	o := testOptions(t)
	o.Config.SegmentBytes = 4 << 20
	o.ahead = aheadBy(testAfter, testStep)
	needsAhead(t, o.Dir+".probe")
	return faulty(t, o)
}

// needsAhead skips a test where the system reserves no blocks.
func needsAhead(t *testing.T, name string) {
	t.Helper()
	f, err := disk.OS{}.Open(name, os.O_CREATE|os.O_RDWR)
	require.NoError(t, err)
	defer f.Close()
	if err := f.Ahead(0, 1<<20); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("the file system reserves no blocks")
	}
}

// grow appends 64 KiB at a time until the active segment has so many bytes.
func grow(t *testing.T, l *Log, bytes int64) {
	t.Helper()
	for l.active.extent().size < bytes {
		add(t, l, batchOf(64<<10))
	}
}

// surplus is what the file of a segment has on the disk beyond its size.
func surplus(t *testing.T, o Options, base record.Offset) int64 {
	t.Helper()
	info, err := os.Stat(logFile(o, base, segment.LogSuffix))
	require.NoError(t, err)
	return disk.Surplus(info)
}

func TestBlocksAreReservedAheadOfASegmentThatGrows(t *testing.T) {
	l, fs, o := growing(t)
	grow(t, l, testAfter-64<<10)
	require.NotContains(t, fs.Trace(), "ahead", "a small segment reserves nothing")
	require.Less(t, surplus(t, o, 0), int64(aheadSlack))
	grow(t, l, testAfter+128<<10)
	size := l.active.extent().size
	require.Equal(t, 1, strings.Count(fs.Trace(), "ahead"))
	require.Greater(t, surplus(t, o, 0), int64(64<<10))
	require.LessOrEqual(t, surplus(t, o, 0), size+aheadSlack, "no more than it has")
	grow(t, l, 3<<20)
	require.Less(t, strings.Count(fs.Trace(), "ahead"), 8)
	require.LessOrEqual(t, surplus(t, o, 0), int64(testStep+aheadSlack))
	for len(*l.segs.Load()) == 1 {
		require.LessOrEqual(t, l.active.aheadTo, o.Config.SegmentBytes)
		info, err := os.Stat(logFile(o, 0, segment.LogSuffix))
		require.NoError(t, err)
		require.Equal(t, l.active.extent().size, info.Size())
		add(t, l, batchOf(64<<10))
	}
	require.NotEmpty(t, read(t, l, 0, l.Bounds().End))
}

// What is reserved and not used is given back when the segment is no longer appended to, and near a full disk.
func TestBlocksAheadAreGivenBack(t *testing.T) {
	for story, end := range map[string]func(*testing.T, *Log, *disktest.FS, Options){
		"sealed": func(t *testing.T, l *Log, _ *disktest.FS, _ Options) { require.NoError(t, l.Roll(RollTime)) },
		"closed": func(t *testing.T, l *Log, _ *disktest.FS, _ Options) { require.NoError(t, l.Close()) },
		"closed with many": func(t *testing.T, l *Log, _ *disktest.FS, _ Options) {
			d, logs := many(t, t.TempDir(), disktest.New(t.TempDir()), closeTogether)
			require.NoError(t, d.CloseLogs(append(logs, l)))
		},
		"truncated": func(t *testing.T, l *Log, _ *disktest.FS, _ Options) {
			require.NoError(t, l.TruncateTo(l.Bounds().End-1))
		},
		"at rest": func(t *testing.T, l *Log, _ *disktest.FS, _ Options) {
			require.Zero(t, l.files.Rest(context.Background(), time.Minute, time.Minute))
			require.Equal(t, 1, l.files.Rest(context.Background(), time.Hour, time.Minute))
		},
		"killed and started": func(t *testing.T, l *Log, _ *disktest.FS, o Options) {
			name := logFile(o, 0, segment.LogSuffix)
			written := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
			require.NoError(t, os.Chtimes(name, written, written))
			kill(l)
			require.Greater(t, surplus(t, o, 0), int64(aheadSlack))
			open(t, o)
			info, err := os.Stat(name)
			require.NoError(t, err)
			require.True(t, written.Equal(info.ModTime()), "nothing was written")
		},
		"sealed, killed and started": func(t *testing.T, l *Log, fs *disktest.FS, o Options) {
			fs.Fail(disktest.Fault{Op: "ahead", Err: syscall.EIO})
			require.NoError(t, l.Roll(RollTime), "no failure of the log")
			require.Greater(t, surplus(t, o, 0), int64(aheadSlack))
			fs.Heal()
			kill(l)
			open(t, o)
		},
		"a full disk": func(t *testing.T, l *Log, fs *disktest.FS, _ Options) {
			fs.Fail(disktest.Fault{Op: "write", Name: ".log", Err: syscall.ENOSPC, Partial: 50})
			_, err := l.Append(request(t, plain(1, 0)))
			require.ErrorIs(t, err, ErrDiskFull)
		},
		"near the mark": func(t *testing.T, l *Log, _ *disktest.FS, o Options) {
			require.False(t, o.ahead.spare(1<<30, 1<<30))
			require.Positive(t, o.ahead.sum)
			o.ahead.mark = 50 << 20
			require.True(t, o.ahead.spare(74<<20, 1<<30))
		},
	} {
		t.Run(story, func(t *testing.T) {
			l, fs, o := growing(t)
			grow(t, l, testAfter+192<<10)
			require.Greater(t, surplus(t, o, 0), int64(aheadSlack))
			require.Positive(t, o.ahead.sum)
			end(t, l, fs, o)
			require.LessOrEqual(t, surplus(t, o, 0), int64(aheadSlack))
			require.Zero(t, o.ahead.sum)
			require.Empty(t, o.ahead.held)
		})
	}
}

func TestNothingIsHeldOfALogThatIsGone(t *testing.T) {
	for story, end := range map[string]func(*Log) error{
		"reset":              func(l *Log) error { return l.Reset(5000, record.EpochHistory{}, nil) },
		"truncated to below": func(l *Log) error { return l.TruncateTo(0) },
		"abandoned":          func(l *Log) error { l.Abandon(); return l.Close() },
	} {
		t.Run(story, func(t *testing.T) {
			l, _, o := growing(t)
			add(t, l, plain(1, 0))
			require.NoError(t, l.Roll(RollTime))
			grow(t, l, testAfter+192<<10)
			require.Positive(t, o.ahead.sum)
			require.NoError(t, end(l))
			require.Zero(t, o.ahead.sum)
			require.Empty(t, o.ahead.held)
		})
	}
}

// TestH28_AFailedLogGivesNothingBack: its files are not touched again.
func TestH28_AFailedLogGivesNothingBack(t *testing.T) {
	l, fs, o := growing(t)
	grow(t, l, testAfter+192<<10)
	fs.Fail(disktest.Fault{Op: "write", Name: ".log", Times: 1, Err: syscall.EIO})
	_, err := l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrFailed)
	fs.Trace()
	o.ahead.mark = 50 << 20
	o.ahead.spare(0, 1<<30)
	require.NoError(t, l.Close())
	require.Empty(t, fs.Trace())
	require.Zero(t, o.ahead.sum)
}

// TestH18_NothingIsReservedNearAFullDisk: where produce is soon refused, or what all logs hold would be much of the space.
func TestH18_NothingIsReservedNearAFullDisk(t *testing.T) {
	const mib = 1 << 20
	a := aheadBy(testAfter, testStep)
	a.mark = 100 * mib
	free, total := int64(0), int64(10_000*mib)
	a.space = func() (int64, int64, error) { return free, total, nil }
	s, other := &seg{}, &seg{}
	for _, row := range []struct {
		free  int64
		taken bool
	}{{0, false}, {100, false}, {150, false}, {165, false}, {166, true}, {9_000, true}} {
		free = row.free * mib
		require.Equal(t, row.taken, a.take(s, mib), "%d MiB free", row.free)
	}
	free = (150 + 2*aheadShare) * mib
	require.True(t, a.take(s, mib), "in place of the one before")
	require.True(t, a.take(other, mib))
	require.False(t, a.take(&seg{}, mib), "the share is taken")
	a.forget(s)
	require.True(t, a.take(&seg{}, mib))
	total, free = 500*mib, 100*mib // the mark is a tenth of a small disk
	a.forget(other)
	require.False(t, a.take(s, 2*mib))
	require.True(t, a.take(s, mib/2))
}

// TestH18_FreeSpaceIsNotWhatIsReserved: the free space that marks are compared with does not lack what can be given back.
func TestH18_FreeSpaceIsNotWhatIsReserved(t *testing.T) {
	d, err := OpenDataDir(DataDirOptions{Path: t.TempDir(), ProduceMark: 50 << 20})
	require.NoError(t, err)
	needsAhead(t, filepath.Join(t.TempDir(), "probe"))
	o := Options{Config: DefaultConfig()}
	d.ahead.after = testAfter
	var l *Log
	space := int64(1 << 30)
	d.ahead.space = func() (int64, int64, error) {
		if l == nil {
			return space, 1 << 30, nil
		}
		return space - surplus(t, Options{Dir: d.Path([16]byte{1}, 0)}, 0), 1 << 30, nil
	}
	opened, err := d.OpenLog(context.Background(), [16]byte{1}, 0, o)
	require.NoError(t, err)
	grow(t, opened, 2<<20)
	l = opened
	free, _, err := d.FreeSpace()
	require.NoError(t, err)
	require.Less(t, free, space-aheadSlack, "far from the mark it may")
	space = 75 << 20
	free, _, err = d.FreeSpace()
	require.NoError(t, err)
	require.GreaterOrEqual(t, free, space-aheadSlack)
	require.NoError(t, d.CloseLogs([]*Log{l}))
	require.NoError(t, d.Close())
}

// What the system refuses fails no append. A full disk is asked again after the next step, anything else never again.
func TestBlocksAheadThatAreRefusedFailNothing(t *testing.T) {
	for _, row := range []struct {
		err  error
		asks bool
	}{{syscall.ENOSPC, true}, {syscall.EDQUOT, true}, {syscall.EOPNOTSUPP, false}, {syscall.EINVAL, false}} {
		t.Run(row.err.Error(), func(t *testing.T) {
			l, fs, o := growing(t)
			fs.Fail(disktest.Fault{Op: "ahead", Times: 1, Err: row.err})
			grow(t, l, 3<<20)
			trace := fs.Trace()
			require.Equal(t, row.asks, strings.Count(trace, "ahead") > 2)
			_, next, _ := strings.Cut(trace, " FAILS\n")
			require.Equal(t, row.asks, strings.HasPrefix(next, "ahead"), "what a full disk gave in part is given back")
			require.NoError(t, l.Roll(RollTime))
			fs.Trace()
			grow(t, l, 3<<20)
			require.Equal(t, row.asks, strings.Contains(fs.Trace(), "ahead"), "in the next segment")
			o.Dir += "0"
			o.FS = disktest.New(filepath.Dir(o.Dir))
			grow(t, open(t, o), 3<<20)
			require.Equal(t, row.asks, strings.Contains(o.FS.(*disktest.FS).Trace(), "ahead"), "in another log")
			require.NotEmpty(t, read(t, l, 0, l.Bounds().End))
		})
	}
}
