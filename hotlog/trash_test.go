package hotlog

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// emptied runs EmptyTrash until the trash is as wanted, and to its end.
func emptied(t *testing.T, d *DataDir, wanted func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.EmptyTrash(ctx) }()
	require.Eventually(t, wanted, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

func inTrash(t *testing.T, root string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, trashName))
	require.NoError(t, err)
	return entries
}

// writtenLog is a data directory with a log of several segments that no sync has covered.
func writtenLog(t *testing.T, root string, fs disk.FS) (*DataDir, *Log) {
	t.Helper()
	d, l := one(t, root, small(Options{Config: DefaultConfig(), FS: fs}))
	for i := range 35 {
		_, err := l.Append(request(t, plain(1, int64(i))))
		require.NoError(t, err)
	}
	l.work.Wait()
	return d, l
}

// A discarded log is out of the way when Discard returns, without a sync of its files, and after a power cut too; its bytes
// are there until the trash is emptied.
func TestADiscardedLogIsGoneAtOnceAndItsBytesLater(t *testing.T) {
	root := t.TempDir()
	fs := disktest.New(root)
	d, l := writtenLog(t, root, fs)
	require.NoError(t, fs.SyncDir(l.dir)) // disktest leaves names that no sync has covered where they were
	fs.Trace()
	require.NoError(t, d.Discard([]*Log{l}))
	trace := fs.Trace()
	require.NotContains(t, trace, "\nsync ")
	require.NotContains(t, trace, "write")
	require.NotContains(t, trace, "remove")
	require.Contains(t, trace, "rename "+filepath.Base(d.Path(knownTopic, 0)))
	_, err := l.Append(request(t, plain(1, 40)))
	require.ErrorIs(t, err, ErrClosed)
	_, err = l.Flush()
	require.ErrorIs(t, err, ErrClosed)
	dirs, err := d.List()
	require.NoError(t, err)
	require.Empty(t, dirs)

	for i := range 20 {
		after := filepath.Join(t.TempDir(), "after")
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		require.NoError(t, fs.PowerCut(rnd.IntN, after))
		left, err := filepath.Glob(filepath.Join(after, filepath.Base(d.Path(knownTopic, 0)), "*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}

	entries := inTrash(t, root)
	require.Len(t, entries, 1)
	logs, err := filepath.Glob(filepath.Join(root, trashName, entries[0].Name(), "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 4)
	emptied(t, d, func() bool { return len(inTrash(t, root)) == 0 })
	require.NoError(t, l.Failed())
	require.NotContains(t, fs.Trace(), "\nsync ")
	require.NoError(t, d.Discard([]*Log{l}), "one that is not there is no error")
}

// A kill between the rename and the last unlink: the next process finishes, and so does this one when a file could not be
// deleted at first.
func TestDeletionGoesOnAfterAKill(t *testing.T) {
	root := t.TempDir()
	fs := disktest.New(root)
	d, l := writtenLog(t, root, fs)
	fs.Fail(disktest.Fault{Op: "remove", Name: "10.log", Err: syscall.EIO})
	require.NoError(t, d.Discard([]*Log{l}))
	half := func() bool {
		logs, err := filepath.Glob(filepath.Join(root, trashName, "*", "*"))
		return err == nil && len(logs) == 1 && strings.HasSuffix(logs[0], "10.log")
	}
	emptied(t, d, half)
	require.NoError(t, d.Close())
	again := dataDir(t, root, "")
	require.True(t, half(), "a start does not wait for it")
	emptied(t, again, func() bool { return len(inTrash(t, root)) == 0 })
}

// The end of a process waits for one file, not for the trash.
func TestTheTrashIsLeftToTheNextStartAtAStop(t *testing.T) {
	root := t.TempDir()
	d, l := writtenLog(t, root, disktest.New(root))
	require.NoError(t, d.Discard([]*Log{l}))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, d.EmptyTrash(ctx))
	require.Len(t, inTrash(t, root), 1)
}

// stuckFS is a file system whose syncs of one file wait.
type stuckFS struct {
	disk.FS
	name          string
	begun, finish chan struct{}
}

type stuckFile struct {
	disk.File
	fs *stuckFS
}

func (s *stuckFS) Open(name string, flag int) (disk.File, error) {
	f, err := s.FS.Open(name, flag)
	if err != nil || filepath.Base(name) != s.name {
		return f, err
	}
	return stuckFile{f, s}, nil
}

func (f stuckFile) Sync() error {
	f.fs.begun <- struct{}{}
	<-f.fs.finish
	return f.File.Sync()
}

// A sync that is under way keeps nobody waiting, and what its log meets afterwards, its files being elsewhere, is no failure
// of the data directory. A log of the same partition that is opened at once is a new one, on which it has no effect.
func TestALogIsDiscardedWhileItIsSynced(t *testing.T) {
	root := t.TempDir()
	fs := &stuckFS{FS: disk.OS{}, name: "00000000000000000000.log", begun: make(chan struct{}), finish: make(chan struct{})}
	d, l := one(t, root, Options{Config: DefaultConfig(), FS: fs})
	_, err := l.Append(request(t, plain(3, 0)))
	require.NoError(t, err)
	flushed := make(chan error, 1)
	go func() {
		_, err := l.Flush()
		flushed <- err
	}()
	<-fs.begun
	require.NoError(t, d.Discard([]*Log{l}))
	type result struct {
		log *Log
		err error
	}
	opened := make(chan result, 1)
	go func() {
		fresh, err := d.OpenLog(context.Background(), knownTopic, 0, Options{Config: DefaultConfig()})
		opened <- result{fresh, err}
	}()
	close(fs.finish)
	require.ErrorIs(t, <-flushed, ErrClosed)
	require.NoError(t, l.Failed())
	r := <-opened
	require.NoError(t, r.err)
	require.Equal(t, Bounds{}, r.log.Bounds())
	require.NoFileExists(t, filepath.Join(d.Path(knownTopic, 0), pointFile))
	go func() { <-fs.begun }()
	_, err = r.log.Append(request(t, plain(1, 0)))
	require.NoError(t, err)
	require.NoError(t, r.log.Close())
	require.Equal(t, record.Offset(1), r.log.Bounds().Flushed)
}
