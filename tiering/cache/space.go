package cache

import (
	"container/list"
	"sync/atomic"
	"time"
)

// entry is a resident chunk. Its fields but key, path, bytes and image are guarded by Cache.mu.
type entry struct {
	key   Key
	path  string
	bytes int64 // of the file; what used counts
	// image is the chunk in memory; nil once its file is written. If the disk does not take the file it stays,
	// and the entry is in no map.
	image atomic.Pointer[image]

	pins      int
	read      bool          // somebody has had it
	keepUntil time.Time     // not evicted before, unless read
	place     *list.Element // in Cache.lru; nil once forgotten
	inMemory  *list.Element // in Cache.images; nil once its file is being written
}

// reserveLocked finds room for bytes more by choosing entries that are not in use, the longest idle first, and takes
// them out; their files are still to be removed. It takes all that is needed or nothing. A prefetch takes no chunk that
// nobody has read yet. If only chunks that are kept for somebody stand in the way, wake is when the first stops.
func (c *Cache) reserveLocked(bytes int64, prefetch bool) (victims []*entry, wake time.Time, ok bool) {
	now := time.Now()
	free := c.bound - c.used
	for el := c.lru.Front(); el != nil && free < bytes; el = el.Next() {
		e := el.Value.(*entry)
		switch {
		case e.pins > 0 || prefetch && !e.read:
		case !e.read && now.Before(e.keepUntil):
			if wake.IsZero() || e.keepUntil.Before(wake) {
				wake = e.keepUntil
			}
		default:
			victims, free = append(victims, e), free+e.bytes
		}
	}
	if free < bytes {
		return nil, wake, false
	}
	for _, e := range victims {
		c.dropLocked(e)
		c.opts.Metrics.evicted.Inc()
	}
	c.used += bytes
	return victims, wake, true
}

// leastBound is what Limit always leaves, so that reads go on.
const leastBound = 32 << 20

// Limit bounds the files at so many bytes until the next call, though never below what reads need and never above
// Options.MaxBytes: the disk is wanted for what is nowhere else (L2). What is too much goes at once, the longest idle
// first, but for what is in use or kept for somebody.
func (c *Cache) Limit(bytes int64) {
	c.mu.Lock()
	c.bound = min(max(bytes, leastBound), c.opts.MaxBytes)
	var victims []*entry
	for el := c.lru.Front(); el != nil && c.used > c.bound; {
		e := el.Value.(*entry)
		el = el.Next()
		if e.pins == 0 && (e.read || !time.Now().Before(e.keepUntil)) {
			c.dropLocked(e)
			c.opts.Metrics.evicted.Inc()
			victims = append(victims, e)
		}
	}
	c.mu.Unlock()
	removeFiles(victims)
}

// dropLocked takes an entry that nobody holds out of the cache and gives its space back.
func (c *Cache) dropLocked(e *entry) {
	c.forgetLocked(e)
	c.giveBackLocked(e)
}

// giveBackLocked gives back what an entry that nobody can reach any more takes on disk and in memory.
func (c *Cache) giveBackLocked(e *entry) {
	c.used -= e.bytes
	c.images.remove(e)
	if m := e.image.Swap(nil); m != nil {
		m.drop()
	}
}

// forgetLocked makes an entry unfindable. Its space is given back when it is not pinned any more.
func (c *Cache) forgetLocked(e *entry) {
	if e.place == nil {
		return
	}
	c.lru.Remove(e.place)
	e.place = nil
	if c.entries[e.key] == e {
		delete(c.entries, e.key)
	}
}

// unpin gives one hold back.
func (c *Cache) unpin(e *entry) {
	c.mu.Lock()
	e.pins--
	gone := e.pins == 0 && e.place == nil
	if gone {
		c.giveBackLocked(e)
	}
	if e.pins == 0 {
		c.pumpLocked()
	}
	c.mu.Unlock()
	if gone {
		removeFiles([]*entry{e})
	}
}

// forget makes a damaged chunk unfindable; the holder's unpin gives its space back.
func (c *Cache) forget(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.place != nil {
		c.opts.Metrics.damaged.Inc()
	}
	c.forgetLocked(e)
}
