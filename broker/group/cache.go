package group

import (
	"context"
	"errors"
	"maps"

	"tidemark/catalog"
)

type loadState uint8

const (
	unloaded loadState = iota
	loading
	loaded
)

// cache is what is known of a group's committed rows. It is guarded by its
// entry's lock.
type cache struct {
	state loadState
	rows  map[catalog.PartitionID]catalog.CommittedOffset
	// acked are rows that became durable while a load ran; the load may have
	// read before them.
	acked map[catalog.PartitionID]catalog.CommittedOffset
	// stale is set when an unclear outcome makes a load that runs worthless.
	stale bool
	// unsure are keys whose last write has an unclear outcome: they are
	// written again even if the value looks unchanged.
	unsure map[catalog.PartitionID]bool
	// inFlight counts the writes of a key that are queued or under way.
	inFlight map[catalog.PartitionID]int
	// deleting is set while rows are being deleted; commits wait outside.
	deleting bool
	waiters  []func(Code)
}

func (c *cache) fail() []func(Code) {
	w := c.waiters
	*c = cache{}
	return w
}

// unchanged reports that writing w would change nothing.
func (c *cache) unchanged(w catalog.CommittedOffset) bool {
	if c.state != loaded || c.inFlight[w.Partition] > 0 || c.unsure[w.Partition] {
		return false
	}
	row, ok := c.rows[w.Partition]
	return ok && row.Offset == w.Offset && row.LeaderEpoch == w.LeaderEpoch && row.Metadata == w.Metadata
}

func (c *cache) queued(id catalog.PartitionID) {
	if c.inFlight == nil {
		c.inFlight = map[catalog.PartitionID]int{}
	}
	c.inFlight[id]++
}

func (c *cache) settled(id catalog.PartitionID) {
	if c.inFlight[id] > 1 {
		c.inFlight[id]--
		return
	}
	delete(c.inFlight, id) // perhaps for the second time, if the cache was dropped meanwhile
}

// durable takes over a row that was written.
func (c *cache) durable(w catalog.CommittedOffset) {
	delete(c.unsure, w.Partition)
	switch c.state {
	case loaded:
		c.rows[w.Partition] = w
	case loading:
		if c.acked == nil {
			c.acked = map[catalog.PartitionID]catalog.CommittedOffset{}
		}
		c.acked[w.Partition] = w
	}
}

// unclear follows a write of which nothing is known: all is read again.
func (c *cache) unclear(id catalog.PartitionID) {
	if c.unsure == nil {
		c.unsure = map[catalog.PartitionID]bool{}
	}
	c.unsure[id] = true
	if c.state == loaded {
		c.state, c.rows = unloaded, nil
	}
	c.stale = c.state == loading
}

func (c *cache) removed(match func(catalog.PartitionID) bool) {
	drop := func(id catalog.PartitionID, _ catalog.CommittedOffset) bool { return match(id) }
	maps.DeleteFunc(c.rows, drop)
	maps.DeleteFunc(c.acked, drop)
	// A load that runs may have read what is deleted now.
	c.stale = c.stale || c.state == loading
}

// whenLoaded calls f, without the lock, once the group's rows are known or
// cannot be read. It is called with e locked and unlocks it.
func (c *Coordinator) whenLoaded(e *entry, f func(Code)) {
	if e.cache.state == loaded {
		e.mu.Unlock()
		f(OK)
		return
	}
	e.cache.waiters = append(e.cache.waiters, f)
	start := e.cache.state == unloaded
	if start {
		e.cache.state, e.cache.stale, e.cache.acked = loading, false, nil
	}
	e.mu.Unlock()
	if start && !c.task(func(ctx context.Context) { c.load(ctx, e) }) {
		c.loadFailed(e)
	}
}

func (c *Coordinator) loadFailed(e *entry) {
	e.mu.Lock()
	waiters := e.cache.waiters
	e.cache.waiters, e.cache.state, e.cache.acked = nil, unloaded, nil
	e.mu.Unlock()
	for _, w := range waiters {
		w(CoordinatorLoading)
	}
}

func (c *Coordinator) load(ctx context.Context, e *entry) {
	for {
		rows, err := c.opts.Offsets.GroupOffsets(ctx, e.id)
		if err = errors.Join(err, ctx.Err()); err != nil {
			c.opts.Metrics.failedLoad.Inc()
			c.opts.Log.Warn("a group's offsets cannot be read", "group", e.id, "err", err)
			c.loadFailed(e)
			return
		}
		e.mu.Lock()
		if e.cache.stale && !e.gone {
			e.cache.stale, e.cache.acked = false, nil
			e.mu.Unlock()
			continue
		}
		e.cache.rows = make(map[catalog.PartitionID]catalog.CommittedOffset, len(rows))
		for _, r := range rows {
			e.cache.rows[r.Partition] = r
		}
		maps.Copy(e.cache.rows, e.cache.acked)
		waiters := e.cache.waiters
		e.cache.state, e.cache.acked, e.cache.waiters = loaded, nil, nil
		e.mu.Unlock()
		for _, w := range waiters {
			w(OK)
		}
		return
	}
}

// TopicDeleted forgets what was committed to a topic whose rows the catalog
// has removed with it.
func (c *Coordinator) TopicDeleted(id catalog.TopicID) {
	for _, e := range c.entries() {
		e.mu.Lock()
		e.cache.removed(func(p catalog.PartitionID) bool { return p.Topic == id })
		e.mu.Unlock()
	}
}

func (c *Coordinator) entries() []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*entry, 0, len(c.groups))
	for _, e := range c.groups {
		all = append(all, e)
	}
	return all
}
