package hotlog

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/disk/disktest"
	"tidemark/hotlog/segment"
	"tidemark/record"
)

var knownTopic = [16]byte{7}

// restart closes the machine's log with its directory as a broker does, and opens both again.
type restart struct {
	machine
	root string
	data *DataDir
	lazy bool // by what the clean stop knew, not by the log's own files
}

func (r *restart) open(t *rapid.T) {
	var err error
	r.data, err = OpenDataDir(DataDirOptions{Path: r.root, FS: disktest.New(r.root)})
	require.NoError(t, err)
	if !r.lazy {
		r.data.known = nil
	}
	r.log, err = r.data.OpenLog(context.Background(), knownTopic, 0, r.options)
	require.NoError(t, err)
}

func (r *restart) stop(t *rapid.T) {
	require.NoError(t, r.data.CloseLogs([]*Log{r.log}))
	require.NoError(t, r.data.MarkClean())
	require.NoError(t, r.data.Close())
}

// stopTogether is a stop among many logs, which leaves small ones' files as they are.
func (r *restart) stopTogether(t *rapid.T) {
	c := closers{dir: r.data}
	r.log.closing.Do(func() { c.logs = []*closer{{log: r.log}} })
	require.NoError(t, c.close())
	require.NoError(t, r.data.MarkClean())
	require.NoError(t, r.data.Close())
}

func (r *restart) killed(t *rapid.T) {
	kill(r.log)
	require.NoError(t, r.data.Close())
}

// TestALazilyOpenedLogEqualsAnEagerOne: whatever was done before and after clean stops and kills, a log that was opened by
// what the stop knew is the log that its files make, and both are what a list in memory is.
func TestALazilyOpenedLogEqualsAnEagerOne(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		files := NewFileLimit(2, 2)
		r := &restart{machine: machine{twin: newTwin(), epoch: 1}, root: filepath.Join(dir, "d"), lazy: true}
		r.options = Options{Config: DefaultConfig(), Files: files}
		r.options.Config.SegmentBytes = rapid.SampledFrom([]int64{1, 300, 2000, 40_000}).Draw(t, "segment bytes")
		r.options.Config.IndexIntervalBytes = rapid.IntRange(0, 500).Draw(t, "interval")
		r.options.Config.FlushMessages = rapid.Int64Range(0, 3).Draw(t, "flush messages")
		r.open(t)
		defer func() { r.killed(t) }()
		stopped := func(stop func(*rapid.T), whole bool) func(*rapid.T) {
			return func(t *rapid.T) {
				stop(t)
				r.equal(t, dir, whole)
				// Of a small log that is closed with many, its own files know no epoch in which nothing was written.
				r.lazy = !whole || rapid.Bool().Draw(t, "lazy")
				r.open(t)
				r.lazy = true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				r.append(t, []int64{-1, -1}, []int{rapid.IntRange(1, 4).Draw(t, "first"), rapid.IntRange(1, 40).Draw(t, "second")})
			},
			"append idempotent": func(t *rapid.T) {
				r.append(t, []int64{rapid.Int64Range(0, 3).Draw(t, "id")}, []int{rapid.IntRange(1, 4).Draw(t, "size")})
			},
			"append transactional": func(t *rapid.T) {
				r.append(t, []int64{rapid.Int64Range(firstTxnID, firstTxnID+1).Draw(t, "id")}, []int{1})
			},
			"abort": func(t *rapid.T) { r.endTxn(t, record.ControlAbort) },
			"epoch": func(t *rapid.T) { r.epoch++; require.NoError(t, r.log.AssignEpoch(r.epoch)) },
			"roll":  func(t *rapid.T) { require.NoError(t, r.log.Roll(RollTime)) },
			"free":  r.free,
			"truncate": func(t *rapid.T) {
				to := r.within(t, "to")
				require.NoError(t, r.log.TruncateTo(to))
				r.twin.truncate(to)
				r.epoch++
			},
			"flush": func(t *rapid.T) { _, err := r.log.Flush(); require.NoError(t, err) },
			"rest": func(t *rapid.T) {
				r.log.work.Wait() // a flush uses the file
				files.Rest(context.Background(), 0, 0)
				files.Rest(context.Background(), 0, 0)
				require.Nil(t, r.log.active.handle)
			},
			"stop":           stopped(r.stop, true),
			"stop with many": stopped(r.stopTogether, false),
			"killed":         func(t *rapid.T) { r.killed(t); r.open(t) },
			"look": func(t *rapid.T) {
				b := r.log.Bounds()
				r.twin.holds(t, r.log, b.LocalStart, b.End)
				r.twin.knows(t, r.log)
			},
			"": func(t *rapid.T) {
				require.Equal(t, r.twin.start, r.log.Bounds().LocalStart)
				require.Equal(t, r.twin.end, r.log.Bounds().End)
				require.NoError(t, r.log.Failed())
			},
		})
	})
}

// equal opens two copies of the stopped directory, one by what it knows and one by its files, and compares both, the first
// above all, with the log that was closed.
func (r *restart) equal(t *rapid.T, dir string, whole bool) {
	for i, lazy := range []bool{true, false} {
		root := filepath.Join(dir, fmt.Sprint("copy", i))
		require.NoError(t, os.RemoveAll(root))
		require.NoError(t, os.CopyFS(root, os.DirFS(r.root)))
		c := &restart{root: root, lazy: lazy}
		c.options = r.options
		c.open(t)
		l := c.log
		b := l.Bounds()
		require.True(t, !lazy || l.active.handle == nil)
		require.Equal(t, lazy && b.End > l.active.base, l.active.index == nil)
		if lazy || whole {
			epochs := r.log.Epochs()
			epochs.TruncateTo(b.End) // what began at the end, with nothing written, does not outlive a process
			require.Equal(t, epochs.AppendTo(nil), l.Epochs().AppendTo(nil))
			require.Equal(t, r.log.stored, l.stored)
		}
		if lazy {
			require.Equal(t, r.log.Producers().AppendTo(nil), l.Producers().AppendTo(nil))
		}
		require.Equal(t, r.segments(r.log, lazy), r.segments(l, lazy))
		r.twin.knows(t, l)
		r.twin.holds(t, l, b.LocalStart, b.End)
		c.killed(t)
	}
}

// segments are what the log says of them; a scan reckons the times of appends by those of the files.
func (r *restart) segments(l *Log, times bool) []SegmentInfo {
	out := l.Segments()
	for i := range out {
		out[i].FirstAppendMono = 0
		if !times {
			out[i].FirstAppendWall, out[i].LastAppendWall = 0, 0
		}
	}
	return out
}

// one opens a data directory and its one log.
func one(t *testing.T, root string, o Options) (*DataDir, *Log) {
	t.Helper()
	d, err := OpenDataDir(DataDirOptions{Path: root, FS: o.FS})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	l, err := d.OpenLog(context.Background(), knownTopic, 0, o)
	require.NoError(t, err)
	t.Cleanup(func() { kill(l) })
	return d, l
}

func stop(t *testing.T, d *DataDir, l *Log) {
	t.Helper()
	require.NoError(t, d.CloseLogs([]*Log{l}))
	require.NoError(t, d.MarkClean())
	require.NoError(t, d.Close())
}

// What is known of a log is believed once, after a clean stop, and of the files that were there then.
func TestWhatACleanStopKnowsIsBelievedOnce(t *testing.T) {
	file := func(d *DataDir, base record.Offset) string {
		return filepath.Join(d.Path(knownTopic, 0), segment.Name(base, segment.LogSuffix))
	}
	rows := []struct {
		story string
		after func(t *testing.T, d *DataDir)
		lazy  bool
		end   record.Offset
	}{
		{"nothing happens", func(*testing.T, *DataDir) {}, true, 35},
		{"a start that opens nothing and is killed", func(t *testing.T, d *DataDir) {
			again, err := OpenDataDir(DataDirOptions{Path: d.path})
			require.NoError(t, err)
			require.NoError(t, again.Close())
		}, false, 35},
		{"no clean mark", func(t *testing.T, d *DataDir) { require.NoError(t, os.Remove(d.file(cleanName))) }, false, 35},
		{"a failed mark", func(t *testing.T, d *DataDir) { require.NoError(t, d.MarkFailed()) }, false, 35},
		{"a damaged file", func(t *testing.T, d *DataDir) { require.NoError(t, os.Truncate(d.file(logsName), 60)) }, false, 35},
		{"a log that lost its tail", func(t *testing.T, d *DataDir) { require.NoError(t, os.Truncate(file(d, 30), 76)) }, false, 31},
		{"a log that grew", func(t *testing.T, d *DataDir) {
			b := plain(1, 0)
			record.StampOffset(b, 35, 1)
			appendTo(t, file(d, 30), b)
		}, false, 36},
		{"a lost segment at the front", func(t *testing.T, d *DataDir) { require.NoError(t, os.Remove(file(d, 0))) }, false, 35},
	}
	for _, row := range rows {
		t.Run(row.story, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "d")
			d, l := one(t, root, small(Options{Config: DefaultConfig()}))
			fill(t, l, 35)
			stop(t, d, l)
			row.after(t, d)
			_, l = one(t, root, small(Options{Config: DefaultConfig()}))
			require.Equal(t, row.lazy, l.active.index == nil, "lazily opened")
			require.Equal(t, row.end, l.Bounds().End)
			add(t, l, plain(1, 0))
			require.NotEmpty(t, read(t, l, l.Bounds().LocalStart, row.end+1))
		})
	}
}

// A file whose bytes are others, of the same length, is found at the first use, and the log is not written to.
func TestH28_ALogThatWasChangedWhileStoppedFailsAtItsFirstUse(t *testing.T) {
	root := filepath.Join(t.TempDir(), "d")
	d, l := one(t, root, Options{Config: DefaultConfig()})
	fill(t, l, 5)
	stop(t, d, l)
	name := filepath.Join(d.Path(knownTopic, 0), segment.Name(0, segment.LogSuffix))
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, make([]byte, info.Size()), 0o644))
	_, l = one(t, root, Options{Config: DefaultConfig()})
	require.EqualValues(t, 5, l.Bounds().End)
	_, err = l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrFailed)
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Len(t, got, int(info.Size()))
}

// Power goes at any step between a clean stop and the next one: what a start believes of a log is so.
func TestPowerCutsAroundWhatACleanStopKnows(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		root := filepath.Join(t.TempDir(), "d")
		require.NoError(t, os.Mkdir(root, 0o755))
		fs := disktest.New(root)
		d, l := one(t, root, small(Options{Config: DefaultConfig(), FS: fs}))
		n := rnd.IntN(25)
		fill(t, l, record.Offset(n))
		l.work.Wait()
		cut, at, synced, clean := root+".cut", -1, record.Offset(0), false
		fs.OnStep(func(step int) {
			if at < 0 {
				at = step + rnd.IntN(60)
			}
			if step == at {
				synced = record.Offset(l.flushed.Load())
				require.NoError(t, fs.Cut(rnd.IntN, cut))
			}
		})
		stop(t, d, l)
		if at < 0 || !exists(cut) {
			clean = true
		}
		_, l = one(t, root, small(Options{Config: DefaultConfig(), FS: fs}))
		fill(t, l, record.Offset(n+3))
		l.work.Wait() // the power may go in a background flush
		if !exists(cut) {
			synced = record.Offset(l.flushed.Load())
			require.NoError(t, fs.PowerCut(rnd.IntN, cut))
		}
		_, again := one(t, cut, small(Options{Config: DefaultConfig()}))
		require.GreaterOrEqual(t, again.Bounds().End, synced, "seed %d, after the stop: %v", seed, clean)
		end := again.Bounds().End
		add(t, again, plain(1, 0))
		require.Len(t, read(t, again, 0, end+1), int(end)+1)
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// An active segment's file rests when it is idle: synced through itself before, open while it has bytes that no fsync has
// covered, there again for the next append, and never taken from a reader.
func TestH28_AnIdleFileIsSyncedBeforeItRests(t *testing.T) {
	files := NewFileLimit(4, 4)
	o := testOptions(t)
	o.Files = files
	l, fs, _ := faulty(t, o)
	rest := func(at time.Duration) int { return files.Rest(context.Background(), at, time.Minute) }
	fill(t, l, 3)
	fs.Trace()
	require.Zero(t, rest(0), "just used")
	require.Zero(t, rest(59*time.Second))
	require.Empty(t, fs.Trace())
	s, err := l.Read(0, 3, 1<<20, true)
	require.NoError(t, err)
	require.Zero(t, rest(time.Minute), "read since")
	require.Equal(t, 1, rest(2*time.Minute))
	golden(t, fs.Trace(), "sync p/00.log\nsyncdir p\nsyncdir .")
	require.Nil(t, l.active.handle)
	b := make([]byte, s.Len)
	_, err = s.ReadAt(b, 0)
	require.NoError(t, err, "the reader has the file still")
	s.Release()
	require.Zero(t, rest(9*time.Minute), "it rests")
	fill(t, l, 6)
	require.Len(t, read(t, l, 0, 6), 6)

	rest(10 * time.Minute)
	fs.Fail(disktest.Fault{Op: "sync", Name: ".log", Times: 1, Err: syscall.EIO})
	require.Zero(t, rest(20*time.Minute))
	require.ErrorIs(t, l.Failed(), ErrFailed, "the write error is not hidden")
	require.NotNil(t, l.active.handle)
}

// A log whose file cannot be opened for want of descriptors refuses, and takes the next append.
func TestAnAppendWithoutDescriptorsIsRefused(t *testing.T) {
	files := NewFileLimit(4, 4)
	o := testOptions(t)
	o.Files = files
	l := open(t, o)
	fill(t, l, 3)
	files.Rest(context.Background(), 0, 0)
	require.Equal(t, 1, files.Rest(context.Background(), 0, 0))
	l.active.fs = noFiles{l.fs}
	_, err := l.Append(request(t, plain(1, 0)))
	require.ErrorIs(t, err, ErrNoFiles)
	l.active.fs = l.fs
	require.NoError(t, l.Failed())
	fill(t, l, 4)
}

// noFiles is the file system of a process without descriptors.
type noFiles struct{ disk.FS }

func (noFiles) Open(name string, _ int) (disk.File, error) {
	return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
}

// Appends, reads, rolls and rests at once: nothing is lost, no file is closed under anybody.
func TestFilesRestUnderLoad(t *testing.T) {
	files := NewFileLimit(4, 2)
	o := small(testOptions(t))
	o.Files = files
	l := open(t, o)
	ctx, cancel := context.WithCancel(context.Background())
	var rested atomic.Int64
	var g sync.WaitGroup
	g.Go(func() {
		for ctx.Err() == nil {
			rested.Add(int64(files.Rest(ctx, 0, 0)))
		}
	})
	defer g.Wait()
	defer cancel()
	for i := range 300 {
		if had := rested.Load(); i%30 == 29 { // idle for a moment
			require.Eventually(t, func() bool { return rested.Load() > had }, time.Minute, time.Millisecond)
		}
		add(t, l, plain(1, int64(i)))
		from := max(0, record.Offset(i-25))
		require.Len(t, read(t, l, from, record.Offset(i+1)), i+1-int(from))
	}
	require.Len(t, read(t, l, 0, 300), 300)
}
