package hotlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// many opens logs of a data directory on a disk, with i%4 batches in log i.
func many(t *testing.T, path string, fs *disktest.FS, n int) (*DataDir, []*Log) {
	t.Helper()
	d, err := OpenDataDir(DataDirOptions{Path: path, FS: fs})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	logs := make([]*Log, n)
	for i := range logs {
		o := Options{Config: DefaultConfig()}
		if i%8 > 3 {
			o = small(o) // some segments are sealed, and flushed by that
		}
		logs[i], err = d.OpenLog(context.Background(), [16]byte{1}, int32(i), o)
		require.NoError(t, err)
		for j := range i % 4 * 5 {
			add(t, logs[i], plain(1, int64(j)))
		}
		if i%4 > 0 {
			add(t, logs[i], produced(record.BuilderOptions{}, scanFree/10))
		}
		logs[i].work.Wait()
	}
	return d, logs
}

// Many logs are closed with three syncs of the file system after the first, and need no scan afterwards.
func TestManyLogsCloseWithFewSyncs(t *testing.T) {
	dir := t.TempDir()
	fs := disktest.New(dir)
	d, logs := many(t, dir, fs, closeTogether)
	fs.Trace()
	require.NoError(t, d.CloseLogs(logs))
	trace := "\n" + fs.Trace()
	require.Equal(t, 4, strings.Count(trace, "\nsyncall"))
	require.Zero(t, strings.Count(trace, "\nsync "), "no file of its own")
	require.Zero(t, strings.Count(trace, "\nsyncdir"))
	require.Equal(t, 1, strings.Count(trace, "to logs"))
	known, err := os.ReadFile(d.file(logsName))
	require.NoError(t, err)
	require.Greater(t, len(known), closeTogether*knownSegment)
	require.NoError(t, d.CloseLogs(logs), "idempotent")
	again, err := os.ReadFile(d.file(logsName))
	require.NoError(t, err)
	require.Equal(t, known, again)
	for i := range logs {
		l := open(t, Options{Dir: d.Path([16]byte{1}, int32(i)), Config: DefaultConfig()})
		require.EqualValues(t, ends(i), l.Bounds().End)
		require.Zero(t, l.Recovered().Scanned)
	}
}

// Power goes at any step of closing many logs: each opens, nothing of what was synced before is missing, and what a
// recovery point says is there is there.
func TestPowerCutsWhileManyLogsClose(t *testing.T) {
	for seed := range uint64(5) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		dir := filepath.Join(t.TempDir(), "d")
		require.NoError(t, os.Mkdir(dir, 0o755))
		fs := disktest.New(dir)
		d, logs := many(t, dir, fs, closeTogether)
		cut, at := dir+".cut", 0
		begun := false
		fs.OnStep(func(step int) {
			if !begun {
				begun, at = true, step+rnd.IntN(400)
			}
			if step == at {
				require.NoError(t, fs.Cut(rnd.IntN, cut))
			}
		})
		require.NoError(t, d.CloseLogs(logs))
		if _, err := os.Stat(cut); err != nil {
			require.NoError(t, fs.PowerCut(rnd.IntN, cut))
		}
		for i := range logs {
			name := filepath.Join(cut, filepath.Base(d.Path([16]byte{1}, int32(i))))
			synced, err := readPoint(name)
			l := open(t, Options{Dir: name, Config: DefaultConfig()})
			require.LessOrEqual(t, l.Bounds().End, logs[i].Bounds().End)
			if err == nil {
				require.GreaterOrEqual(t, l.Bounds().End, synced.offset, fmt.Sprint("log ", i, " seed ", seed))
			}
		}
	}
}

// A disk that is full while many logs close costs those that cannot be written a scan, and nobody else.
func TestH18_AFullDiskWhileManyLogsClose(t *testing.T) {
	dir := t.TempDir()
	fs := disktest.New(dir)
	d, logs := many(t, dir, fs, closeTogether)
	fs.Fail(disktest.Fault{Op: "write", Name: "-1/recovery-point", Err: syscall.ENOSPC})
	require.ErrorIs(t, d.CloseLogs(logs), ErrDiskFull)
	for i := range logs {
		l := open(t, Options{Dir: d.Path([16]byte{1}, int32(i)), Config: DefaultConfig()})
		require.EqualValues(t, ends(i), l.Bounds().End)
		require.Equal(t, i == 1, l.Recovered().Scanned > 0, "log %d", i)
	}
}

// ends is the end of log i: of three in four, more than is read through at a start.
func ends(i int) int {
	if i%4 == 0 {
		return 0
	}
	return i%4*5 + scanFree/10
}
