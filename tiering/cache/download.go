package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
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
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
		c.opts.Metrics.running.Set(float64(c.running))
		if err != nil {
			c.opts.Metrics.failed.Inc()
			c.used -= l.bytes
		} else {
			c.opts.Metrics.downloads.Inc()
			c.opts.Metrics.bytes.Add(float64(l.req.Size))
			c.admitLocked(l, e)
		}
		c.endLocked(l, err)
		c.pumpLocked()
	})
}

// admitLocked makes a finished download resident, pinned for each waiter.
func (c *Cache) admitLocked(l *load, e *entry) {
	e.pins, e.read = l.waiters, l.waiters > 0
	l.entry = e
	if e.mem != nil {
		// Only those who wait get it; the last one's unpin gives the space back.
		if e.pins == 0 {
			c.used -= e.bytes
		}
		return
	}
	if !e.read && !l.prefetch {
		e.keepUntil = time.Now().Add(c.opts.UnreadGrace)
	}
	c.entries[e.key] = e
	e.place = c.lru.PushBack(e)
}

func (c *Cache) endLocked(l *load, err error) {
	l.ended, l.err = true, err
	delete(c.loads, l.req.Key)
	close(l.done)
}

// chunkBuffers holds buffers of whole chunk files; there are as many as downloads run at once.
var chunkBuffers sync.Pool

func chunkBuffer(n int64) []byte {
	if b, ok := chunkBuffers.Get().(*[]byte); ok && int64(cap(*b)) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

// download fetches the chunk and writes its file.
func (c *Cache) download(l *load) (_ *entry, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.DownloadTimeout)
	defer cancel()
	buf := chunkBuffer(l.bytes)
	data := buf[l.bytes-l.req.Size:]
	if err := fill(ctx, l.req, data); err != nil {
		chunkBuffers.Put(&buf)
		return nil, err
	}
	seal(buf, l.req.Key, l.req.Size)
	e := &entry{key: l.req.Key, bytes: l.bytes, path: filepath.Join(c.opts.Dir, rand.Text()+suffix)}
	if err := writeFile(e.path, buf); err != nil {
		e.mem = data // a full or broken disk is no reason to fail the read
		return e, nil
	}
	chunkBuffers.Put(&buf)
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
