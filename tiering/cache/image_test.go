package cache

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A reader of a chunk whose file is not written yet has the bytes at once, and the same handle reads the file when the
// memory has been given back.
func TestChunkIsServedWhileItsFileIsWritten(t *testing.T) {
	c := open(t, Options{MaxDownloads: 1})
	l := &load{req: (&store{}).request(key(1)), bytes: room(1), waiters: 1, done: make(chan struct{})}
	c.mu.Lock()
	c.running, c.used, c.loads[key(1)] = 1, l.bytes, l
	c.mu.Unlock()
	e, err := c.download(l)
	require.NoError(t, err)
	c.admit(l, e, nil)
	<-l.done
	c.mu.Lock()
	c.running = 0
	c.mu.Unlock()
	h, err := c.open(l.entry)
	require.NoError(t, err)
	requireContent(t, h, key(1))
	_, _, ok, err := h.Section(0, 10)
	require.NoError(t, err)
	require.False(t, ok)
	other, err := c.TryGet(key(1))
	require.NoError(t, err)
	requireContent(t, other, key(1))
	other.Release()
	require.Equal(t, room(1), c.Used())
	require.Zero(t, dirBytes(t, c.opts.Dir))

	require.Same(t, e, c.overflow(0))
	c.kept(e, c.keep(e))
	require.Nil(t, e.image.Load())
	requireContent(t, h, key(1))
	_, _, ok, err = h.Section(0, 10)
	require.NoError(t, err)
	require.True(t, ok)
	h.Release()
	require.Equal(t, room(1), c.Used())
	require.Equal(t, room(1), dirBytes(t, c.opts.Dir))
}

// Readers that copy while the memory is given back see the chunk's bytes and no other's.
func TestImageIsNotGivenBackUnderAReader(t *testing.T) {
	c, s := open(t, Options{MaxBytes: room(3), MemoryBytes: room(1), MaxDownloads: 3}), &store{}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		wg.Go(func() {
			got := make([]byte, 300)
			for n := range 40 {
				k := key((i + n) % 12)
				h, err := c.Get(t.Context(), s.request(k))
				if err != nil {
					errs <- err
					return
				}
				want := content(k, chunk)
				for off := int64(0); off+300 < chunk && err == nil; off += 50_000 {
					if _, err = h.ReadAt(got, off); err == nil && string(got) != string(want[off:off+300]) {
						err = fmt.Errorf("%v at %d: other bytes", k, off)
					}
				}
				h.Release()
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	written(t, c)
	require.LessOrEqual(t, c.images.bytes, room(1))
	require.Equal(t, c.Used(), dirBytes(t, c.opts.Dir)+c.images.bytes)
}

// What one reader has gone through leaves memory without a file; what nobody has read to its end goes to disk.
func TestReplayLeavesNoFiles(t *testing.T) {
	c, s := open(t, Options{MemoryBytes: room(2)}), &store{}
	for i := range 10 {
		h := mustGet(t, c, s.request(key(i)))
		requireContent(t, h, key(i))
		h.Release()
	}
	written(t, c)
	require.Zero(t, dirBytes(t, c.opts.Dir))
	require.Equal(t, room(2), c.Used())
	for i := 10; i < 13; i++ {
		h := mustGet(t, c, s.request(key(i)))
		_, err := h.ReadAt(make([]byte, chunk-1), 0)
		require.NoError(t, err)
		h.Release()
	}
	written(t, c)
	require.Equal(t, room(1), dirBytes(t, c.opts.Dir))
	h := mustGet(t, c, s.request(key(10)))
	requireContent(t, h, key(10))
	h.Release()
	require.EqualValues(t, 13, s.downloads.Load())
}

// Chunks that nobody has read yet are not pushed out of memory by further read-ahead.
func TestReadAheadStopsWhereMemoryEnds(t *testing.T) {
	c, s := open(t, Options{MemoryBytes: room(2)}), &store{}
	for i := range 2 {
		require.True(t, c.Prefetch(s.request(key(i))))
		written(t, c)
	}
	require.False(t, c.Prefetch(s.request(key(2))))
	h := mustGet(t, c, s.request(key(0)))
	requireContent(t, h, key(0))
	h.Release()
	require.True(t, c.Prefetch(s.request(key(2))))
	written(t, c)
	require.Zero(t, dirBytes(t, c.opts.Dir))
}
