package cache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const chunk = 200_000 // three whole blocks and a part

// content is what the chunk of that key holds.
func content(key Key, size int64) []byte {
	seed := sha256.Sum256(fmt.Append(nil, key))
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// store counts downloads and may hold them until hold is closed.
type store struct {
	downloads atomic.Int64
	hold      chan struct{}
}

func (s *store) request(key Key) Request {
	return Request{Key: key, Size: chunk, Fill: func(ctx context.Context, dst []byte) error {
		s.downloads.Add(1)
		if s.hold != nil {
			select {
			case <-s.hold:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		copy(dst, content(key, chunk))
		return nil
	}}
}

func open(t *testing.T, opts Options) *Cache {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	c, err := Open(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func key(n int) Key { return Key{Object: fmt.Sprintf("c/t/%d/x", n/4), Chunk: int64(n % 4)} }

func mustGet(t *testing.T, c *Cache, r Request) *Handle {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h, err := c.Get(ctx, r)
	require.NoError(t, err)
	return h
}

func requireContent(t *testing.T, h *Handle, k Key) {
	t.Helper()
	got := make([]byte, chunk)
	n, err := h.ReadAt(got, 0)
	require.NoError(t, err)
	require.Equal(t, chunk, n)
	require.True(t, bytes.Equal(content(k, chunk), got))
}

func room(chunks int64) int64 { return chunks * fileSize(key(0), chunk) }

func TestChunkIsReadInAnyPiece(t *testing.T) {
	c, s := open(t, Options{MemoryBytes: 1}), &store{}
	h := mustGet(t, c, s.request(key(1)))
	defer h.Release()
	written(t, c)
	require.EqualValues(t, chunk, h.Len())
	want := content(key(1), chunk)
	for _, r := range [][2]int{{0, chunk}, {0, 1}, {blockSize - 1, 2}, {blockSize, blockSize}, {1, chunk - 1}, {3 * blockSize, chunk - 3*blockSize},
		{blockSize, 2*blockSize + 5}, {chunk - 1, 1}, {100, 3 * blockSize}} {
		got := make([]byte, r[1])
		n, err := h.ReadAt(got, int64(r[0]))
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[r[0]:r[0]+n], got), "%v", r)
		f, at, ok, err := h.Section(int64(r[0]), int64(r[1]))
		require.NoError(t, err)
		require.True(t, ok)
		_, err = f.ReadAt(got, at)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[r[0]:r[0]+n], got), "%v", r)
	}
	_, err := h.ReadAt(make([]byte, 2), chunk-1)
	require.Error(t, err)
	_, _, _, err = h.Section(chunk-1, 2)
	require.Error(t, err)
}

func TestManyCallersShareOneDownload(t *testing.T) {
	c, s := open(t, Options{}), &store{hold: make(chan struct{})}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			h, err := c.Get(t.Context(), s.request(key(1)))
			if err == nil {
				h.Release()
			}
		})
	}
	waitFor(t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		l := c.loads[key(1)]
		return l != nil && l.waiters == 20
	})
	close(s.hold)
	wg.Wait()
	require.EqualValues(t, 1, s.downloads.Load())
}

// B16: a caller's deadline ends its wait, not the download; the next fetch finds the bytes.
func TestB16_CancelledWaitLeavesDownloadRunning(t *testing.T) {
	c, s := open(t, Options{}), &store{hold: make(chan struct{})}
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := c.Get(ctx, s.request(key(1)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	h, err := c.TryGet(key(1))
	require.NoError(t, err)
	require.Nil(t, h)
	close(s.hold)
	h = mustGet(t, c, s.request(key(1)))
	requireContent(t, h, key(1))
	h.Release()
	require.EqualValues(t, 1, s.downloads.Load())
}

// B9: a cache of two chunks serves fifty consumers; none hangs, little is downloaded twice, the limit holds.
func TestB9_CacheSmallerThanTheWorkingSet(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(2)}), &store{}
	const consumers, chunks = 50, 4
	var wg sync.WaitGroup
	errs := make(chan error, consumers)
	for i := range consumers {
		wg.Go(func() {
			for j := range chunks {
				k := Key{Object: fmt.Sprintf("p%d", i), Chunk: int64(j)}
				r := s.request(k)
				r.Owner = uint64(i)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				h, err := c.Get(ctx, r)
				cancel()
				if err != nil {
					errs <- err
					return
				}
				got := make([]byte, chunk)
				if _, err := h.ReadAt(got, 0); err != nil || !bytes.Equal(got, content(k, chunk)) {
					errs <- fmt.Errorf("%v: wrong bytes, %w", k, err)
				}
				if used := c.Used(); used > room(2) {
					errs <- fmt.Errorf("%d bytes used of %d", used, room(2))
				}
				h.Release()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, s.downloads.Load(), int64(3*consumers*chunks))
	require.LessOrEqual(t, dirBytes(t, c.opts.Dir), room(2))
}

// B9: what was downloaded for a caller who stopped waiting is there when it asks again, though others want the room.
func TestB9_UnreadChunkIsKeptForItsReader(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(1), UnreadGrace: time.Hour}), &store{hold: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Get(ctx, s.request(key(1)))
	require.ErrorIs(t, err, context.Canceled)
	close(s.hold)
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.entries[key(1)] != nil })
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.Get(short, s.request(key(2)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	h := mustGet(t, c, s.request(key(1)))
	require.EqualValues(t, 1, s.downloads.Load())
	h.Release()
	mustGet(t, c, s.request(key(2))).Release()
}

// Once the grace is over the room is given away without anybody else having to move.
func TestUnreadChunkIsGivenUpAfterItsGrace(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(1), UnreadGrace: 50 * time.Millisecond}), &store{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = c.Get(ctx, s.request(key(1)))
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.entries[key(1)] != nil })
	mustGet(t, c, s.request(key(2))).Release()
}

func TestPinnedChunkStaysAndAdmissionWaits(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(1)}), &store{}
	h := mustGet(t, c, s.request(key(1)))
	got := make(chan *Handle)
	go func() { h, _ := c.Get(context.Background(), s.request(key(2))); got <- h }()
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.queue.n == 1 })
	requireContent(t, h, key(1))
	require.EqualValues(t, 1, s.downloads.Load(), "space comes before the download")
	h.Release()
	h.Release() // harmless
	h2 := <-got
	requireContent(t, h2, key(2))
	h2.Release()
}

func TestDamagedFileIsAMiss(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"flipped data": func(p string) error { return flip(p, -5) },
		"flipped key":  func(p string) error { return flip(p, fixedHeader+1) },
		"flipped sum":  func(p string) error { return flip(p, fixedHeader+int64(len(key(1).Object))+1) },
		"torn":         func(p string) error { return os.Truncate(p, 70_000) },
		"empty":        func(p string) error { return os.Truncate(p, 0) },
		"gone":         os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			c, s := open(t, Options{MemoryBytes: 1}), &store{}
			h := mustGet(t, c, s.request(key(1)))
			h.Release()
			written(t, c)
			require.NoError(t, damage(h.entry.path))
			h = mustGet(t, c, s.request(key(1)))
			if s.downloads.Load() == 1 { // the header is whole: the damage shows when the data is read
				_, err := h.ReadAt(make([]byte, 10), chunk-10)
				require.ErrorIs(t, err, ErrDamaged)
				_, _, _, err = h.Section(chunk-10, 10)
				require.ErrorIs(t, err, ErrDamaged)
				h.Release()
				h = mustGet(t, c, s.request(key(1)))
			}
			requireContent(t, h, key(1))
			h.Release()
			written(t, c)
			require.EqualValues(t, 2, s.downloads.Load())
			require.Equal(t, room(1), c.Used())
		})
	}
}

func TestRemovingTheFolderWhileRunningIsHarmless(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(3), MemoryBytes: 1}), &store{}
	h := mustGet(t, c, s.request(key(1)))
	mustGet(t, c, s.request(key(2))).Release()
	written(t, c)
	_, err := h.ReadAt(make([]byte, 1), 0) // the file is open now
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(c.opts.Dir))
	requireContent(t, h, key(1))
	h.Release()
	for i := range 6 {
		h := mustGet(t, c, s.request(key(i)))
		requireContent(t, h, key(i))
		h.Release()
	}
	written(t, c)
	require.LessOrEqual(t, c.Used(), room(3))
	require.Equal(t, c.Used(), dirBytes(t, c.opts.Dir))
}

func TestDiskThatTakesNoFileServesFromMemory(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(1), MemoryBytes: 1}), &store{}
	require.NoError(t, os.RemoveAll(c.opts.Dir))
	require.NoError(t, os.WriteFile(c.opts.Dir, nil, 0o644)) // a file where the folder was
	for i := range 3 {
		h := mustGet(t, c, s.request(key(i)))
		requireContent(t, h, key(i))
		_, _, ok, err := h.Section(0, 10)
		require.NoError(t, err)
		require.False(t, ok)
		h.Release()
	}
	written(t, c)
	require.Zero(t, c.Used())
}

func TestNextProcessFindsTheChunks(t *testing.T) {
	dir, s := t.TempDir(), &store{}
	c := open(t, Options{Dir: dir})
	for i := range 3 {
		mustGet(t, c, s.request(key(i))).Release()
	}
	require.NoError(t, c.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "torn"+suffix), []byte("TMCH"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "not-ours"), []byte("x"), 0o644))
	c = open(t, Options{Dir: dir, MaxBytes: room(2)})
	require.Equal(t, room(2), c.Used())
	require.Equal(t, room(2)+1, dirBytes(t, dir))
	for i := range 3 {
		h := mustGet(t, c, s.request(key(i)))
		requireContent(t, h, key(i))
		h.Release()
	}
	require.GreaterOrEqual(t, s.downloads.Load(), int64(4))
	require.LessOrEqual(t, s.downloads.Load(), int64(6))
}

func TestFailedDownloadIsToldToAllAndTriedAgain(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(1)}), &store{}
	boom := errors.New("boom")
	for _, fail := range []func(context.Context, []byte) error{
		func(context.Context, []byte) error { return boom },
		func(context.Context, []byte) error { panic(boom) },
	} {
		_, err := c.Get(t.Context(), Request{Key: key(1), Size: chunk, Fill: fail})
		require.ErrorContains(t, err, "boom")
		require.Zero(t, c.Used())
	}
	mustGet(t, c, s.request(key(1))).Release()
	_, err := c.Get(t.Context(), Request{Key: key(9), Size: room(1)})
	require.ErrorIs(t, err, ErrTooLarge)
}

// A connection with many cold partitions does not keep another waiting (L9).
func TestL9_TurnsAreGivenToConnections(t *testing.T) {
	c := open(t, Options{MaxDownloads: 1, MaxQueued: 101})
	gate, order := make(chan struct{}), make(chan uint64, 200)
	want := func(owner uint64, n int) {
		go func() {
			h, err := c.Get(context.Background(), Request{Key: Key{Object: fmt.Sprint(owner), Chunk: int64(n)}, Size: 10, Owner: owner,
				Fill: func(context.Context, []byte) error { <-gate; order <- owner; return nil }})
			if err == nil {
				h.Release()
			}
		}()
	}
	queued := func(n int) {
		waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.queue.n == n })
	}
	for i := range 100 {
		want(1, i)
	}
	queued(99)
	want(2, 0)
	queued(100)
	want(2, 1)
	queued(101)
	_, err := c.Get(t.Context(), Request{Key: key(1), Size: 10})
	require.ErrorIs(t, err, ErrBusy)
	close(gate)
	require.Contains(t, []uint64{<-order, <-order, <-order}, uint64(2))
	require.Contains(t, []uint64{<-order, <-order}, uint64(2))
	for range 97 {
		<-order
	}
}

func TestPrefetchTakesOnlyWhatIsIdle(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(2), MaxDownloads: 2}), &store{}
	require.True(t, c.Prefetch(s.request(key(1))))
	require.True(t, c.Prefetch(s.request(key(1))))
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.running == 0 })
	require.True(t, c.Prefetch(s.request(key(2))))
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.running == 0 })
	require.False(t, c.Prefetch(s.request(key(3))), "nobody has read the others yet")
	mustGet(t, c, s.request(key(1))).Release()
	require.True(t, c.Prefetch(s.request(key(3))))
	require.False(t, c.Prefetch(Request{Key: key(4), Size: room(3)}))
	mustGet(t, c, s.request(key(3))).Release()
	require.EqualValues(t, 3, s.downloads.Load())
}

func TestCloseEndsDownloadsAndWaits(t *testing.T) {
	c, s := open(t, Options{MaxDownloads: 1}), &store{hold: make(chan struct{})}
	errs := make(chan error, 2)
	for i := range 2 {
		go func() { _, err := c.Get(context.Background(), s.request(key(i))); errs <- err }()
	}
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.queue.n == 1 })
	require.NoError(t, c.Close())
	require.Error(t, <-errs)
	require.Error(t, <-errs)
	_, err := c.Get(t.Context(), s.request(key(1)))
	require.ErrorIs(t, err, ErrClosed)
	require.False(t, c.Prefetch(s.request(key(1))))
}

func TestDownloadHasADeadline(t *testing.T) {
	c, s := open(t, Options{DownloadTimeout: 20 * time.Millisecond}), &store{hold: make(chan struct{})}
	_, err := c.Get(t.Context(), s.request(key(1)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestOptionsNameEveryFault(t *testing.T) {
	_, err := Open(Options{MaxBytes: -1, MaxDownloads: -2})
	for _, part := range []string{"Dir", "MaxBytes", "MaxDownloads"} {
		require.ErrorContains(t, err, part)
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, time.Minute, time.Millisecond)
}

// written waits until every download has its file.
func written(t *testing.T, c *Cache) {
	t.Helper()
	waitFor(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.running == 0 })
}

func dirBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		fi, err := e.Info()
		require.NoError(t, err)
		n += fi.Size()
	}
	return n
}

// flip inverts a byte; a negative offset counts from the end.
func flip(path string, off int64) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if off < 0 {
		off += int64(len(b))
	}
	b[off] ^= 0xff
	return os.WriteFile(path, b, 0o644)
}
