package published

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// rig is a record on a file system and a clock that obey the test.
type rig struct {
	*Record
	t   *testing.T
	o   Options
	fs  *disktest.FS
	now time.Time
}

func open(t *testing.T, change func(*Options)) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, fs: disktest.New(dir), now: time.UnixMilli(1_000_000_000_000)}
	r.o = Options{Dir: filepath.Join(dir, "published"), FS: r.fs, Now: func() time.Time { return r.now }}
	if change != nil {
		change(&r.o)
	}
	r.reopen()
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func (r *rig) reopen() {
	r.t.Helper()
	if r.Record != nil {
		require.NoError(r.t, r.Close())
	}
	var err error
	r.Record, err = Open(r.o)
	require.NoError(r.t, err)
}

func row(n int) catalog.Publication {
	return catalog.Publication{Segment: catalog.Segment{
		Partition: catalog.PartitionID{Topic: catalog.TopicID{7}, Partition: 3}, Base: record.Offset(n), Next: record.Offset(n + 1),
		Key: fmt.Sprintf("key-%d", n), Attempt: fmt.Sprintf("attempt-%d", n), SHA256: [32]byte{byte(n)}, MaxTimestamp: int64(n), Bytes: 9,
	}, Replaced: []string{fmt.Sprint(n)}, Relies: record.Offset(n + 7)}
}

func (r *rig) note(from, to int) {
	r.t.Helper()
	for n := from; n < to; n++ {
		require.NoError(r.t, r.Note(row(n)))
	}
}

// bases are the rows that the record has, newest first.
func (r *rig) bases() []int {
	r.t.Helper()
	out := []int{}
	require.NoError(r.t, r.Newest(3, func(rows []catalog.Publication) (bool, error) {
		for _, s := range rows {
			require.Equal(r.t, row(int(s.Base)), s)
			out = append(out, int(s.Base))
		}
		return true, nil
	}))
	return out
}

func (r *rig) names() []string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.o.Dir, "*"))
	require.NoError(r.t, err)
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

func TestH2_WhatIsNotedIsSyncedAndThereAfterARestart(t *testing.T) {
	r := open(t, nil)
	r.fs.Trace()
	r.note(0, 1)
	const file = "published/0000000000000001.rec"
	require.Regexp(t, "^create "+file+"\nwrite "+file+" 8 at 0\nsync "+file+"\nsyncdir published\nwrite "+file+` \d+ at 8`+"\nsync "+file+"$", r.fs.Trace())
	r.note(1, 8)
	require.Equal(t, []int{7, 6, 5, 4, 3, 2, 1, 0}, r.bases())
	r.reopen()
	require.Equal(t, []int{7, 6, 5, 4, 3, 2, 1, 0}, r.bases())
	r.note(8, 9)
	require.Equal(t, []int{8, 7, 6, 5, 4, 3, 2, 1, 0}, r.bases())
	require.Len(t, r.names(), 2, "every life has files of its own")
	pages := 0
	require.NoError(t, r.Newest(3, func([]catalog.Publication) (bool, error) { pages++; return false, nil }))
	require.Equal(t, 1, pages)
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Note(row(1)), ErrClosed)
}

func TestH2_ATornOrDamagedRecordIsBelievedUpToThere(t *testing.T) {
	rows := []struct {
		story string
		hurt  func(b []byte) []byte
		have  []int
	}{
		{"the last entry is torn", func(b []byte) []byte { return b[:len(b)-5] }, []int{1, 0}},
		{"a length is torn", func(b []byte) []byte { return append(b, 0, 0) }, []int{2, 1, 0}},
		{"zeros, as of a file that was longer than what was synced", func(b []byte) []byte { return append(b, make([]byte, 100)...) }, []int{2, 1, 0}},
		{"a bit of the last entry", func(b []byte) []byte { b[len(b)-20] ^= 4; return b }, []int{1, 0}},
		{"a bit of the first entry", func(b []byte) []byte { b[headerBytes+frameBytes+9] ^= 4; return b }, []int{}},
		{"a length beyond the file", func(b []byte) []byte { b[headerBytes] = 1; return b }, []int{}},
		{"not even a header", func(b []byte) []byte { return b[:3] }, []int{}},
		{"of a later release", func(b []byte) []byte { b[5] = 9; return b }, []int{}},
	}
	for _, c := range rows {
		t.Run(c.story, func(t *testing.T) {
			r := open(t, nil)
			r.note(0, 3)
			require.NoError(t, r.Close())
			path := r.path(1)
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, c.hurt(raw), 0o644))
			r.o.FS = nil
			r.reopen()
			require.Equal(t, c.have, r.bases())
			r.note(3, 4)
			r.reopen()
			require.Equal(t, append([]int{3}, c.have...), r.bases())
		})
	}
}

func TestH2_TheRecordIsBoundedByTimeAndBytes(t *testing.T) {
	r := open(t, func(o *Options) { o.FileBytes, o.MaxBytes = 1000, 4000 })
	r.note(0, 40)
	var total int64
	for _, n := range r.names() {
		info, err := os.Stat(filepath.Join(r.o.Dir, n))
		require.NoError(t, err)
		total += info.Size()
	}
	require.LessOrEqual(t, total, int64(4000))
	have := r.bases()
	require.Equal(t, 39, have[0])
	require.Greater(t, len(have), 3)

	r = open(t, nil)
	r.note(0, 2)
	r.now = r.now.Add(61 * time.Minute)
	r.note(2, 3)
	require.Len(t, r.names(), 2, "a file an hour")
	r.now = r.now.Add(23 * time.Hour)
	require.Equal(t, []int{2}, r.bases(), "the first two are older than a day")
	r.note(3, 4)
	require.Equal(t, []string{name(2), name(3)}, r.names())
	r.now = r.now.Add(25 * time.Hour)
	r.reopen()
	require.Empty(t, r.bases())
	require.Empty(t, r.names())
}

func TestH28_AFailedFileOfTheRecordIsLeft(t *testing.T) {
	for _, fault := range []disktest.Fault{
		{Op: "write", Name: ".rec", Err: syscall.ENOSPC, Partial: 30},
		{Op: "sync", Name: ".rec", Err: syscall.EIO},
	} {
		t.Run(fault.Op, func(t *testing.T) {
			r := open(t, nil)
			r.note(0, 2)
			r.fs.Fail(fault)
			for range 3 {
				require.ErrorIs(t, r.Note(row(2)), fault.Err)
			}
			require.Len(t, r.names(), 1, "tries leave nothing behind")
			r.fs.Heal()
			r.fs.Trace()
			r.note(2, 3)
			require.NotContains(t, r.fs.Trace(), name(1), "the file that failed is not touched again")
			require.Equal(t, []int{2, 1, 0}, r.bases())
			r.reopen()
			require.Subset(t, []int{2, 1, 0}, r.bases(), "bytes that were not synced may be there too, and say the same")
			require.Subset(t, r.bases(), []int{2, 1, 0})
		})
	}
}

func TestH2_OneFsyncServesAllWhoWait(t *testing.T) {
	r := open(t, nil)
	r.note(0, 1)
	r.fs.Trace()
	const n = 32
	held := make(chan struct{})
	var once sync.Once
	r.fs.OnStep(func(int) { once.Do(func() { <-held }) })
	var waiting sync.WaitGroup
	errs := make([]error, n)
	begun := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.next == nil {
			return 0
		}
		_, size, err := parseEntry(r.next.bytes)
		require.NoError(t, err)
		return len(r.next.bytes) / size
	}
	for i := range n {
		waiting.Go(func() { errs[i] = r.Note(row(10)) })
	}
	require.Eventually(t, func() bool { return begun() >= n-1 }, time.Minute, time.Millisecond)
	close(held)
	waiting.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Len(t, r.bases(), n+1)
	const file = "published/0000000000000001.rec"
	require.Regexp(t, "^write "+file+` \d+ at \d+`+"\nsync "+file+"\nwrite "+file+` \d+ at \d+`+"\nsync "+file+"$", r.fs.Trace())
}

func FuzzParse(f *testing.F) {
	whole, err := appendEntry(header(), time.UnixMilli(5), row(1))
	require.NoError(f, err)
	f.Add(whole)
	f.Add(whole[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		_, good, err := parse(b)
		require.LessOrEqual(t, good, len(b))
		if err == nil {
			require.Equal(t, len(b), good)
		}
	})
}

func BenchmarkNote(b *testing.B) {
	for _, many := range []int{1, 4, 32} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			r, err := Open(Options{Dir: filepath.Join(b.TempDir(), "published")})
			require.NoError(b, err)
			b.SetParallelism(many)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := r.Note(row(1)); err != nil {
						b.Error(err)
					}
				}
			})
			require.NoError(b, r.Close())
		})
	}
}
