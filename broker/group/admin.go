package group

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidemark/catalog"
)

// Describe answers DescribeGroups for one group. One that nobody knows is Dead
// with GROUP_ID_NOT_FOUND, which versions below 6 leave out.
func (c *Coordinator) Describe(group string, done func(Description)) {
	e, _, code := c.find(group, true)
	if code != OK {
		done(Description{Code: code, Group: group, State: Dead})
		return
	}
	if d := e.group.Describe(); d.State != Empty || e.group.generation > 0 {
		e.mu.Unlock()
		done(d)
		return
	}
	c.whenLoaded(e, func(code Code) {
		e.mu.Lock()
		d := e.group.Describe()
		if code == OK && d.State == Empty && e.group.generation == 0 && len(e.cache.rows) == 0 {
			code, d.State = GroupIDNotFound, Dead
		}
		e.mu.Unlock()
		if d.Code = code; code == GroupIDNotFound {
			c.forget(e)
		}
		done(d)
	})
}

// List answers ListGroups with the groups that this broker coordinates, those
// in memory and those that have only offsets, by name.
func (c *Coordinator) List(done func([]Listing, Code)) {
	if !c.task(func(ctx context.Context) { done(c.list(ctx)) }) {
		done(nil, CoordinatorNotAvailable)
	}
}

func (c *Coordinator) list(ctx context.Context) ([]Listing, Code) {
	stored, err := c.opts.Offsets.OffsetGroups(ctx)
	if err != nil {
		c.opts.Log.Warn("the groups cannot be listed", "err", err)
		return nil, CoordinatorNotAvailable
	}
	var all []Listing
	for _, e := range c.entries() {
		e.mu.Lock()
		l := e.group.List()
		known := !e.gone && (l.State != Empty || e.group.generation > 0)
		e.mu.Unlock()
		if known {
			delete(stored, l.Group)
			all = append(all, l)
		}
	}
	for group := range stored {
		if _, ok := c.opts.Guard(group); ok {
			all = append(all, Listing{Group: group, State: Empty})
		}
	}
	slices.SortFunc(all, func(a, b Listing) int { return cmp.Compare(a.Group, b.Group) })
	return all, OK
}

// DeleteGroup answers DeleteGroups for one group: without members, with all
// its offsets.
func (c *Coordinator) DeleteGroup(group string, done func(Code)) {
	c.whenDeletable(group, done, func(e *entry, guard catalog.SlotGuard) {
		switch {
		case e.group.state != Empty:
			e.mu.Unlock()
			done(NonEmptyGroup)
			return
		case e.group.generation == 0 && len(e.cache.rows) == 0:
			e.mu.Unlock()
			c.forget(e)
			done(GroupIDNotFound)
			return
		}
		c.deleteRows(e, guard, nil, func(code Code) {
			if code == OK {
				c.forget(e)
			}
			done(code)
		})
	})
}

// DeleteOffsets answers OffsetDelete. The codes are those of topics, in order;
// if the first result is not OK they are absent.
func (c *Coordinator) DeleteOffsets(group string, topics []TopicPartitions, done func(Code, []Code)) {
	fail := func(code Code) { done(code, nil) }
	c.whenDeletable(group, fail, func(e *entry, guard catalog.SlotGuard) {
		if e.group.state == Empty && e.group.generation == 0 && len(e.cache.rows) == 0 {
			e.mu.Unlock()
			c.forget(e)
			fail(GroupIDNotFound)
			return
		}
		codes := make([]Code, len(topics))
		var ps []catalog.PartitionID
		for i, t := range topics {
			code := e.group.CheckDeleteOffsets(t.Name)
			if code == NonEmptyGroup {
				e.mu.Unlock()
				fail(code)
				return
			}
			id, ok := c.opts.Topics.TopicID(t.Name)
			if code == OK && !ok {
				code = UnknownTopicOrPartition
			}
			if codes[i] = code; code == OK {
				for _, p := range t.Partitions {
					ps = append(ps, catalog.PartitionID{Topic: id, Partition: p})
				}
			}
		}
		if len(ps) == 0 {
			e.mu.Unlock()
			done(OK, codes)
			return
		}
		c.deleteRows(e, guard, ps, func(code Code) {
			if code != OK {
				fail(code)
				return
			}
			done(OK, codes)
		})
	})
}

// whenDeletable loads a group's rows and calls f with it locked; f unlocks it.
// A group with a write under way has to be asked for again.
func (c *Coordinator) whenDeletable(group string, fail func(Code), f func(e *entry, guard catalog.SlotGuard)) {
	if group == "" {
		fail(InvalidGroupID)
		return
	}
	e, guard, code := c.find(group, true)
	if code != OK {
		fail(code)
		return
	}
	c.whenLoaded(e, func(code Code) {
		if code != OK {
			fail(code)
			return
		}
		e.mu.Lock()
		if e.gone || e.cache.state != loaded || e.cache.deleting || len(e.cache.inFlight) > 0 {
			e.mu.Unlock()
			fail(CoordinatorLoading)
			return
		}
		f(e, guard)
	})
}

// deleteRows deletes the named rows, or all of them for nil, with commits held
// off. It is called with e locked and unlocks it.
func (c *Coordinator) deleteRows(e *entry, guard catalog.SlotGuard, ps []catalog.PartitionID, done func(Code)) {
	e.cache.deleting = true
	e.mu.Unlock()
	ok := c.task(func(ctx context.Context) {
		err := c.opts.Offsets.DeleteOffsets(ctx, guard, e.id, ps)
		e.mu.Lock()
		// Clear or not, what is there is read again.
		e.cache.state, e.cache.rows, e.cache.deleting = unloaded, nil, false
		e.mu.Unlock()
		if err != nil {
			c.opts.Log.Warn("a group's offsets cannot be deleted", "group", e.id, "err", err)
		}
		done(commitCode(err))
	})
	if !ok {
		done(CoordinatorNotAvailable)
	}
}

// forget takes an unused group out of memory.
func (c *Coordinator) forget(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone || !e.group.Idle() || len(e.cache.inFlight) > 0 || e.cache.deleting || len(e.cache.waiters) > 0 {
		return false
	}
	e.gone = true
	c.uncount(e)
	if c.groups[e.id] == e {
		delete(c.groups, e.id)
	}
	c.opts.Metrics.groups.Set(float64(len(c.groups)))
	return true
}

func (c *Coordinator) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(c.opts.SweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.sweep(ctx)
		}
	}
}

// sweep unloads groups that nobody uses and deletes the offsets of those whose
// retention is over.
func (c *Coordinator) sweep(ctx context.Context) {
	now := c.clock()
	for _, e := range c.entries() {
		e.mu.Lock()
		keep := c.opts.UnloadAfter
		if e.kept {
			keep = max(keep, c.opts.Retention)
		}
		idle := e.group.Idle() && now-e.touched >= keep
		e.mu.Unlock()
		if idle {
			c.forget(e)
		}
	}
	wall, ok := c.opts.Wall()
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.opts.StoreTimeout)
	defer cancel()
	stored, err := c.opts.Offsets.OffsetGroups(ctx)
	if err != nil {
		c.opts.Log.Warn("expired offsets cannot be looked for", "err", err)
		return
	}
	for group, last := range stored {
		if wall.Sub(last) >= c.opts.Retention {
			c.expire(group)
		}
	}
}

// expire deletes the offsets of a group if it has had no members for the
// retention time, as far as this process knows.
func (c *Coordinator) expire(group string) {
	if c.inUse(group) {
		return
	}
	ignore := func(Code) {}
	c.whenDeletable(group, ignore, func(e *entry, guard catalog.SlotGuard) {
		if e.group.state != Empty {
			e.mu.Unlock()
			return
		}
		c.deleteRows(e, guard, nil, func(code Code) {
			if code == OK {
				c.opts.Metrics.expired.Inc()
				c.opts.Log.Info("a group's offsets have expired", "group", group)
				c.forget(e)
			}
		})
	})
}

// inUse reports that a group has or lately had members or commits. Commits
// that changed nothing count, though the catalog has not seen them.
func (c *Coordinator) inUse(group string) bool {
	c.mu.Lock()
	e := c.groups[group]
	c.mu.Unlock()
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.clock()
	return !e.group.Idle() || now-e.touched < c.opts.Retention || e.group.generation > 0 && now-e.group.EmptySince() < c.opts.Retention
}
