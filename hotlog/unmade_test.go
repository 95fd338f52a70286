package hotlog

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// A log that was never written to has nothing on the disk, whatever else is done with it; the first write makes it.
func TestANewLogIsMadeByItsFirstWrite(t *testing.T) {
	uses := map[string]func(t *testing.T, l *Log) record.Offset{
		"append": func(t *testing.T, l *Log) record.Offset {
			add(t, l, plain(2, 0))
			return 2
		},
		"reset": func(t *testing.T, l *Log) record.Offset {
			require.NoError(t, l.Reset(7, record.EpochHistory{}, nil))
			return 7
		},
		"a follower's first batch, above which the log was to begin": func(t *testing.T, l *Log) record.Offset {
			require.NoError(t, l.Reset(1, record.EpochHistory{}, nil))
			batch := request(t, plain(3, 0))
			batch.Follower = true
			_, err := l.Append(batch)
			require.NoError(t, err)
			return 3
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			fs := disktest.New(root)
			o := Options{Config: DefaultConfig(), FS: fs}
			d, l := one(t, root, o)
			fs.Trace()
			require.NoError(t, l.AssignEpoch(1))
			require.NoError(t, l.Roll(RollTime))
			require.NoError(t, l.TruncateTo(0))
			_, err := l.Flush()
			require.NoError(t, err)
			s, err := l.Read(0, 0, 1000, true)
			require.NoError(t, err)
			require.Zero(t, s.Len)
			_, found, err := l.OffsetForTime(0, 0, 0)
			require.NoError(t, err)
			require.False(t, found)
			stop(t, d, l)
			require.NotContains(t, fs.Trace(), "mkdir")

			d, l = one(t, root, o)
			require.Equal(t, Bounds{}, l.Bounds())
			require.NoDirExists(t, d.Path(knownTopic, 0))
			end := use(t, l)
			require.Equal(t, end, l.Bounds().End)
			stop(t, d, l)
			_, l = one(t, root, o)
			require.Equal(t, end, l.Bounds().End)
		})
	}
}

// A full disk refuses the first write and takes it when there is space.
func TestL1_ANewLogOnAFullDisk(t *testing.T) {
	for _, op := range []string{"mkdir", "create"} {
		t.Run(op, func(t *testing.T) {
			root := t.TempDir()
			fs := disktest.New(root)
			_, l := one(t, root, Options{Config: DefaultConfig(), FS: fs})
			fs.Fail(disktest.Fault{Op: op, Name: "0-0", Err: syscall.ENOSPC})
			_, err := l.Append(request(t, plain(1, 0)))
			require.ErrorIs(t, err, ErrDiskFull)
			require.NoError(t, l.Failed())
			fs.Heal()
			add(t, l, plain(1, 0))
			require.NoError(t, l.Close())
			again, err := Open(context.Background(), Options{Dir: l.dir, Config: DefaultConfig()})
			require.NoError(t, err)
			require.Equal(t, record.Offset(1), again.Bounds().End)
			require.NoError(t, again.Close())
		})
	}
}

// A kill between the two names of a new log leaves an empty directory, which is a new log.
func TestANewLogIsKilledWhileItIsMade(t *testing.T) {
	o := testOptions(t)
	require.NoError(t, os.Mkdir(o.Dir, 0o755))
	l := open(t, o)
	require.Equal(t, Bounds{}, l.Bounds())
	add(t, l, plain(1, 0))
}
