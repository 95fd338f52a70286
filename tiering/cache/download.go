package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// load is one download, waiting for its turn or running. Fields below are guarded by Cache.mu until done is closed.
type load struct {
	req      Request
	bytes    int64 // of its file
	prefetch bool
	done     chan struct{}

	waiters int
	left    time.Time // when the last waiter left
	ended   bool
	entry   *entry // pinned once for each waiter
	err     error
}

var errAbandoned = errors.New("nobody waits for this download any more")

// join makes the caller a waiter of the chunk's download, a new one if need be; nil if the chunk is here meanwhile.
func (c *Cache) join(req Request) (*load, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.entries[req.Key] != nil:
		return nil, nil
	}
	if l := c.loads[req.Key]; l != nil {
		l.waiters++
		c.opts.Metrics.joined.Inc()
		return l, nil
	}
	if c.queue.n >= c.opts.MaxQueued {
		return nil, fmt.Errorf("%w: %d", ErrBusy, c.queue.n)
	}
	l := &load{req: req, bytes: fileSize(req.Key, req.Size), waiters: 1, done: make(chan struct{})}
	c.loads[req.Key] = l
	c.queue.push(l)
	c.opts.Metrics.misses.Inc()
	c.pumpLocked()
	return l, nil
}

// leave ends a caller's wait. If the download ended at the same moment the caller's pin is given back.
func (c *Cache) leave(l *load) {
	c.mu.Lock()
	l.waiters--
	l.left = time.Now()
	ended := l.ended
	c.mu.Unlock()
	if ended && l.entry != nil {
		c.unpin(l.entry)
	}
}

// pumpLocked starts the downloads whose turn it is while there are slots and room.
func (c *Cache) pumpLocked() {
	for !c.closed && c.running < c.opts.MaxDownloads {
		l := c.queue.next()
		if l == nil {
			break
		}
		if l.waiters == 0 && time.Since(l.left) > c.opts.AbandonAfter {
			c.queue.pop()
			c.opts.Metrics.dropped.Inc()
			c.endLocked(l, errAbandoned)
			continue
		}
		victims, wake, ok := c.reserveLocked(l.bytes, false)
		if !ok {
			c.wakeLocked(wake)
			break
		}
		c.queue.pop()
		c.startLocked(l, victims)
	}
	c.opts.Metrics.queued.Set(float64(c.queue.n))
	c.opts.Metrics.used.Set(float64(c.used))
}

// wakeLocked has pumpLocked run again at a time at which nobody else would call it.
func (c *Cache) wakeLocked(at time.Time) {
	if at.IsZero() {
		return
	}
	if c.waker != nil {
		c.waker.Stop()
	}
	c.waker = time.AfterFunc(time.Until(at)+time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.pumpLocked()
	})
}

func (c *Cache) startLocked(l *load, victims []*entry) {
	c.running++
	c.opts.Metrics.running.Set(float64(c.running))
	c.wg.Go(func() {
		removeFiles(victims) // before the download: the disk never holds both
		e, err := c.download(l)
		c.admit(l, e, err)
		// The slot is kept meanwhile: a disk that is slow slows downloads down, and memory stays bounded.
		c.spill()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		c.opts.Metrics.running.Set(float64(c.running))
		c.pumpLocked()
	})
}

// admit makes a finished download resident, pinned for each waiter, and wakes the waiters; e is nil if it failed.
func (c *Cache) admit(l *load, e *entry, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.endLocked(l, err) }()
	if e == nil {
		c.opts.Metrics.failed.Inc()
		c.used -= l.bytes
		return
	}
	c.opts.Metrics.downloads.Inc()
	c.opts.Metrics.bytes.Add(float64(l.req.Size))
	e.pins, e.read = l.waiters, l.waiters > 0
	l.entry = e
	if !e.read && !l.prefetch {
		e.keepUntil = time.Now().Add(c.opts.UnreadGrace)
	}
	c.entries[e.key] = e
	e.place = c.lru.PushBack(e)
	c.images.add(e)
}

func (c *Cache) endLocked(l *load, err error) {
	l.ended, l.err = true, err
	delete(c.loads, l.req.Key)
	close(l.done)
}

// download fetches the chunk into memory.
func (c *Cache) download(l *load) (*entry, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.DownloadTimeout)
	defer cancel()
	buf := chunkBuffer(l.bytes)
	m := newImage(buf, l.req.Size)
	if err := fill(ctx, l.req, m.data); err != nil {
		m.drop()
		return nil, err
	}
	e := &entry{key: l.req.Key, bytes: l.bytes, path: filepath.Join(c.opts.Dir, rand.Text()+suffix)}
	e.image.Store(m)
	return e, nil
}

// fill runs the caller's function; a panic in it fails this download only.
func fill(ctx context.Context, req Request, dst []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: download of %s chunk %d: panic: %v", req.Key.Object, req.Key.Chunk, p)
		}
	}()
	return req.Fill(ctx, dst)
}

func removeFiles(entries []*entry) {
	for _, e := range entries {
		if e.path != "" {
			_ = os.Remove(e.path) // already gone is as good
		}
	}
}
