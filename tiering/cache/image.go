package cache

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// image is a downloaded chunk in memory, before or instead of its file. Who reads it holds it for the length of one copy
// only, so that a slow reader keeps no buffer.
type image struct {
	buf  []byte // the whole file
	data []byte // of buf
	refs atomic.Int32

	given atomic.Int64 // bytes that were read
	ended atomic.Bool  // the last byte was
}

// newImage holds the image once.
func newImage(buf []byte, size int64) *image {
	m := &image{buf: buf, data: buf[int64(len(buf))-size:]}
	m.refs.Store(1)
	return m
}

// hold keeps the buffer until drop; false if it has been given back.
func (m *image) hold() bool {
	for n := m.refs.Load(); n > 0; n = m.refs.Load() {
		if m.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

func (m *image) drop() {
	if m.refs.Add(-1) == 0 {
		chunkBuffers.Put(&m.buf)
	}
}

// read copies from the data; the caller holds the image.
func (m *image) read(p []byte, off int64) {
	copy(p, m.data[off:])
	m.given.Add(int64(len(p)))
	if off+int64(len(p)) == int64(len(m.data)) {
		m.ended.Store(true)
	}
}

// passed reports whether a reader has gone through the whole chunk.
func (m *image) passed() bool { return m.ended.Load() && m.given.Load() >= int64(len(m.data)) }

// chunkBuffers holds buffers of whole chunk files that are free.
var chunkBuffers sync.Pool

func chunkBuffer(n int64) []byte {
	if b, ok := chunkBuffers.Get().(*[]byte); ok && int64(cap(*b)) >= n {
		return (*b)[:n]
	}
	return make([]byte, n)
}

// images are the resident chunks that have no file yet, the oldest in front. Guarded by Cache.mu.
type images struct {
	order *list.List // of *entry
	bytes int64
}

func (i *images) add(e *entry) {
	e.inMemory = i.order.PushBack(e)
	i.bytes += e.bytes
}

// remove takes an entry out of the list; its image stays.
func (i *images) remove(e *entry) {
	if e.inMemory != nil {
		i.order.Remove(e.inMemory)
		e.inMemory = nil
		i.bytes -= e.bytes
	}
}

// firstPassed is the oldest one that a reader has gone through and nobody holds, or nil.
func (i *images) firstPassed() *entry {
	for el := i.order.Front(); el != nil; el = el.Next() {
		if e := el.Value.(*entry); e.pins == 0 && e.image.Load().passed() {
			return e
		}
	}
	return nil
}

// unread is the size of those that no reader has gone through.
func (i *images) unread() (n int64) {
	for el := i.order.Front(); el != nil; el = el.Next() {
		if e := el.Value.(*entry); !e.image.Load().passed() {
			n += e.bytes
		}
	}
	return n
}

// spill brings what chunks take in memory back to the limit: those that a reader has gone through are dropped, for a
// replay comes once; of the others the oldest go to disk.
func (c *Cache) spill() {
	for e := c.overflow(c.opts.MemoryBytes); e != nil; e = c.overflow(c.opts.MemoryBytes) {
		c.kept(e, c.keep(e))
	}
}

// overflow is the next entry to write to disk, pinned; nil once no more than limit is in memory.
func (c *Cache) overflow(limit int64) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.images.bytes > limit {
		if e := c.images.firstPassed(); e != nil {
			c.dropLocked(e)
			c.opts.Metrics.passed.Inc()
			continue
		}
		e := c.images.order.Front().Value.(*entry)
		c.images.remove(e)
		e.pins++
		return e
	}
	c.opts.Metrics.memory.Set(float64(c.images.bytes))
	return nil
}

// keep writes the file of an image, which is given back then; if the disk does not take it, the image stays.
func (c *Cache) keep(e *entry) error {
	m := e.image.Load()
	seal(m.buf, e.key, int64(len(m.data)))
	if err := writeFile(e.path, m.buf); err != nil {
		return err
	}
	e.image.Store(nil)
	m.drop()
	return nil
}

// kept ends the writing of a file. A full or broken disk is no reason to fail the reads: those who have the chunk keep
// it in memory, and the last one's unpin gives the space back.
func (c *Cache) kept(e *entry, err error) {
	if err != nil {
		c.mu.Lock()
		c.forgetLocked(e)
		c.mu.Unlock()
	}
	c.unpin(e)
}
