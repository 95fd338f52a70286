package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Key names a chunk: the object's key and the chunk's number in it. How an object is cut into chunks is the caller's
// business, but a key always means the same bytes.
type Key struct {
	Object string
	Chunk  int64
}

// Request asks for a chunk of Size bytes. Fill downloads it into dst, which is Size long and the cache's; it must not
// depend on the caller, who may be gone when it runs, and nil means that all of dst is right. Owner is whom turns are
// given to: the connection.
type Request struct {
	Key   Key
	Size  int64
	Owner uint64
	Fill  func(ctx context.Context, dst []byte) error
}

// Cache is a bounded folder of chunks. Safe for concurrent use.
type Cache struct {
	opts   Options
	ctx    context.Context // of all downloads; ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // downloads

	mu      sync.Mutex
	entries map[Key]*entry
	lru     *list.List // of *entry, longest idle first
	images  images
	loads   map[Key]*load
	queue   queue
	running int
	used    int64
	bound   int64 // of used; see Limit
	closed  bool
	waker   *time.Timer // runs pump when a kept chunk may go
}

// Open takes over what an earlier process left in the folder, as far as it is whole and fits.
func Open(opts Options) (*Cache, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	c := &Cache{opts: opts.withDefaults(), entries: map[Key]*entry{}, lru: list.New(), images: images{order: list.New()}, loads: map[Key]*load{}}
	c.bound = c.opts.MaxBytes
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.recover(); err != nil {
		c.cancel()
		return nil, fmt.Errorf("open cache %s: %w", c.opts.Dir, err)
	}
	return c, nil
}

// Close ends all downloads, waits for them, writes what is in memory and not read yet, and leaves the files for the next
// Open. Handles stay readable until they are released. More calls do nothing.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	for l := c.queue.next(); l != nil; l = c.queue.next() {
		c.queue.pop()
		c.endLocked(l, ErrClosed)
	}
	if c.waker != nil {
		c.waker.Stop()
	}
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	for e := c.overflow(0); e != nil; e = c.overflow(0) {
		c.kept(e, c.keep(e))
	}
	return nil
}

// Get gives a hold on the chunk, after downloading it if need be. If ctx ends first Get returns its error and the
// download goes on. Whoever holds one Handle while it waits for another needs a deadline in ctx: others may hold all
// the space for the same reason.
func (c *Cache) Get(ctx context.Context, req Request) (*Handle, error) {
	if size := fileSize(req.Key, req.Size); req.Size < 0 || len(req.Key.Object) > maxObject || size > c.opts.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes of %d", ErrTooLarge, size, c.opts.MaxBytes)
	}
	for {
		if h, err := c.TryGet(req.Key); h != nil || err != nil {
			return h, err
		}
		l, err := c.join(req)
		if err != nil {
			return nil, err
		}
		if l == nil {
			continue // it became resident
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			c.leave(l)
			return nil, ctx.Err()
		}
		if l.err != nil {
			return nil, l.err
		}
		h, err := c.open(l.entry)
		if h != nil || err != nil {
			return h, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// TryGet gives a hold on the chunk if it is here now, else nil; it waits for nothing but the opening of a file.
func (c *Cache) TryGet(key Key) (*Handle, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	e := c.entries[key]
	if e == nil {
		c.mu.Unlock()
		return nil, nil
	}
	e.pins++
	e.read = true
	c.lru.MoveToBack(e.place)
	c.mu.Unlock()
	h, err := c.open(e)
	if h != nil {
		c.opts.Metrics.hits.Inc()
	}
	return h, err
}

// open makes a Handle of a pinned entry. A file that is missing or damaged gives nil without error: a miss.
func (c *Cache) open(e *entry) (*Handle, error) {
	h := &Handle{cache: c, entry: e}
	if m := e.image.Load(); m != nil {
		h.size = int64(len(m.data))
		return h, nil // its file is opened when the image has gone
	}
	_, err := h.disk()
	if err == nil {
		h.size = h.header.size
		return h, nil
	}
	c.unpin(e)
	if errors.Is(err, ErrDamaged) {
		return nil, nil
	}
	return nil, err // out of file descriptors, say
}

// Prefetch downloads the chunk in the background if it is not here, a download slot is idle and room can be made, in
// memory and on disk, without taking what nobody has read yet; otherwise it does nothing. It says whether the chunk is
// here or coming.
func (c *Cache) Prefetch(req Request) bool {
	bytes := fileSize(req.Key, req.Size)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || req.Size < 0 || len(req.Key.Object) > maxObject || bytes > c.opts.MaxBytes {
		return false
	}
	if c.entries[req.Key] != nil || c.loads[req.Key] != nil {
		return true
	}
	// One slot stays free for somebody who waits.
	if c.queue.n > 0 || c.running >= max(1, c.opts.MaxDownloads-1) {
		return false
	}
	if c.images.unread()+int64(c.running+1)*bytes > c.opts.MemoryBytes {
		return false
	}
	victims, _, ok := c.reserveLocked(bytes, true)
	if !ok {
		return false
	}
	l := &load{req: req, bytes: bytes, prefetch: true, done: make(chan struct{})}
	c.loads[req.Key] = l
	c.startLocked(l, victims)
	return true
}

// Used is how many bytes the cache counts as taken, running downloads included.
func (c *Cache) Used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
