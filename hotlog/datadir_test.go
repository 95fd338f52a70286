package hotlog

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/hotlog/disk/disktest"
)

func dataDir(t *testing.T, path string, boot string) *DataDir {
	t.Helper()
	d, err := OpenDataDir(DataDirOptions{Path: path, BootID: func() string { return boot }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// TestH27_OneProcessOneOwner: a data directory serves one process, one cluster, one
// broker.
func TestH27_OneProcessOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "data")
	d := dataDir(t, path, "boot-1")
	_, err := OpenDataDir(DataDirOptions{Path: path})
	require.ErrorIs(t, err, ErrInUse)
	require.ErrorContains(t, err, path)
	_, _, bound := d.Identity()
	require.False(t, bound)
	require.NoError(t, d.Bind("tides", 7))
	require.NoError(t, d.Bind("tides", 7))
	require.NoError(t, d.Close())
	d = dataDir(t, path, "boot-1")
	require.ErrorIs(t, d.Bind("tides", 8), ErrForeign)
	err = d.Bind("other", 7)
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "broker 7 of cluster tides, this is broker 7 of cluster other; give this one a folder of its own")
	require.NoError(t, d.Bind("tides", 7))
	cluster, broker, bound := d.Identity()
	require.True(t, bound)
	require.Equal(t, "tides", cluster)
	require.Equal(t, int32(7), broker)
}

// TestH4_WhoMayKeepItsIncarnation: only who lost no page cache and no write.
func TestH4_WhoMayKeepItsIncarnation(t *testing.T) {
	clean := func(t *testing.T, d *DataDir) { require.NoError(t, d.MarkClean()) }
	failed := func(t *testing.T, d *DataDir) {
		require.NoError(t, d.MarkFailed())
		require.NoError(t, d.MarkClean())
	}
	killed := func(*testing.T, *DataDir) {}
	rows := []struct {
		story    string
		stop     func(*testing.T, *DataDir)
		nextBoot string
		may      bool
	}{
		{"stopped cleanly, same kernel", clean, "boot-1", true},
		{"stopped cleanly, machine restarted", clean, "boot-2", true},
		{"killed, same kernel", killed, "boot-1", true},
		{"machine reset", killed, "boot-2", false},
		{"no boot id to be had", killed, "", false},
		{"a write failed, then a clean stop", failed, "boot-1", false},
		{"a write failed, then a reset", failed, "boot-2", false},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			path := t.TempDir()
			d := dataDir(t, path, "boot-1")
			_, may := d.MayKeepIncarnation()
			require.False(t, may, "a new directory has none")
			require.NoError(t, d.SetIncarnation(77))
			row.stop(t, d)
			require.NoError(t, d.Close())
			d = dataDir(t, path, row.nextBoot)
			number, may := d.MayKeepIncarnation()
			require.Equal(t, row.may, may)
			require.Equal(t, int64(77), number)
			if !may {
				require.NoError(t, d.SetIncarnation(88))
				require.NoError(t, d.MarkClean())
				require.NoError(t, d.Close())
				number, may = dataDir(t, path, "boot-3").MayKeepIncarnation()
				require.True(t, may)
				require.Equal(t, int64(88), number)
			}
		})
	}
}

func TestH4_TheCleanMarkServesOneStart(t *testing.T) {
	path := t.TempDir()
	d := dataDir(t, path, "boot-1")
	require.NoError(t, d.SetIncarnation(77))
	require.NoError(t, d.MarkClean())
	require.NoError(t, d.Close())
	fs := disktest.New(path)
	d, err := OpenDataDir(DataDirOptions{Path: path, BootID: func() string { return "boot-2" }, FS: fs})
	require.NoError(t, err)
	require.Equal(t, "remove clean\nsyncdir .", fs.Trace())
	require.NoError(t, d.Close())
	_, may := dataDir(t, path, "boot-3").MayKeepIncarnation()
	require.False(t, may)
}

// TestH28_TheLeaseGateFeelsTheDisk: a probe is a synced write, and a disk that
// hangs or fails ends it.
func TestH28_TheLeaseGateFeelsTheDisk(t *testing.T) {
	path := t.TempDir()
	fs := disktest.New(path)
	d, err := OpenDataDir(DataDirOptions{Path: path, FS: fs})
	require.NoError(t, err)
	fs.Trace()
	require.NoError(t, d.Probe(context.Background()))
	require.NoError(t, d.Probe(context.Background()))
	require.Equal(t, "create probe\nwrite probe 8 at 0\nsync probe\nwrite probe 8 at 0\nsync probe", fs.Trace())

	hang := make(chan struct{})
	fs.OnStep(func(int) { <-hang })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, d.Probe(ctx), context.DeadlineExceeded)
	require.ErrorIs(t, d.Probe(ctx), context.DeadlineExceeded, "the second waits for the same write")
	close(hang)
	require.NoError(t, d.Probe(context.Background()))
	fs.OnStep(nil)
	fs.Fail(disktest.Fault{Op: "sync", Name: "probe", Err: syscall.EIO})
	require.ErrorIs(t, d.Probe(context.Background()), syscall.EIO)
	require.NoError(t, d.Close())
}

func TestPartitionDirectories(t *testing.T) {
	path := t.TempDir()
	now := time.UnixMilli(day)
	d, err := OpenDataDir(DataDirOptions{Path: path, Wall: func() time.Time { return now }})
	require.NoError(t, err)
	defer d.Close()
	a, b := [16]byte{1, 2, 3}, [16]byte{0xff}
	require.Equal(t, filepath.Join(path, "01020300000000000000000000000000-12"), d.Path(a, 12))
	for _, dir := range []string{d.Path(a, 12), d.Path(a, 0), d.Path(b, 3), filepath.Join(path, "objects"), filepath.Join(path, "xy-1")} {
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o644))
	}
	list := func() []PartitionDir {
		dirs, err := d.List()
		require.NoError(t, err)
		return dirs
	}
	require.Equal(t, []PartitionDir{{a, 0, d.Path(a, 0)}, {a, 12, d.Path(a, 12)}, {b, 3, d.Path(b, 3)}}, list())

	require.NoError(t, os.RemoveAll(d.Path(a, 0)))
	require.NoError(t, d.SetAside(PartitionDir{a, 12, d.Path(a, 12)}))
	require.NoError(t, d.SetAside(PartitionDir{b, 3, d.Path(b, 3)}))
	require.Empty(t, list())
	now = now.Add(StrayAge - time.Hour)
	swept, err := d.SweepStray()
	require.NoError(t, err)
	require.Zero(t, swept)
	found, err := d.Restore(a, 12)
	require.NoError(t, err)
	require.True(t, found)
	require.FileExists(t, filepath.Join(d.Path(a, 12), "file"))
	found, err = d.Restore(a, 1)
	require.NoError(t, err)
	require.False(t, found)
	now = now.Add(2 * time.Hour)
	swept, err = d.SweepStray()
	require.NoError(t, err)
	require.Equal(t, 1, swept)
	require.Len(t, list(), 1)
}

// TestH18_TheReserveIsRealSpace and comes and goes.
func TestH18_TheReserveIsRealSpace(t *testing.T) {
	path := t.TempDir()
	d := dataDir(t, path, "")
	require.NoError(t, d.Reserve(1<<20))
	require.NoError(t, d.Reserve(1<<20))
	info, err := os.Stat(filepath.Join(path, "reserve"))
	require.NoError(t, err)
	require.Equal(t, int64(1<<20), info.Size())
	require.GreaterOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks*512, int64(1<<20))
	free, total, err := d.FreeSpace()
	require.NoError(t, err)
	require.Positive(t, free)
	require.Greater(t, total, free)
	require.NoError(t, d.ReleaseReserve())
	require.NoError(t, d.ReleaseReserve())
	require.NoFileExists(t, filepath.Join(path, "reserve"))
}
