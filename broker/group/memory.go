package group

import "tidemark/catalog"

// What things cost beside their bytes, roughly: maps, structs and the strings of ids.
const (
	groupOverhead   = 1024
	memberOverhead  = 1024
	pendingOverhead = 256
	// fetchedOverhead is what an offset costs in an answer.
	fetchedOverhead = 256
	// unreadOffsets stands for what a group holds whose offsets are not in memory.
	unreadOffsets = 1 << 20
)

// entrySize is what a group without members costs.
func entrySize(id string) int64 { return groupOverhead + int64(len(id)) }

// offered is what the protocols of a join cost.
func offered(ps []Protocol) (n int64) {
	for _, p := range ps {
		n += int64(len(p.Name) + len(p.Metadata))
	}
	return n
}

func (m *member) bytes() int64 {
	return memberOverhead + int64(len(m.id)+len(m.instanceID)+len(m.clientID)+len(m.clientHost)+len(m.assignment)) + offered(m.protocols)
}

// Bytes is about the memory that the group holds.
func (g *Group) Bytes() int64 {
	n := entrySize(g.id) + int64(len(g.pending))*pendingOverhead
	for _, m := range g.members {
		n += m.bytes()
	}
	return n
}

// growth is at most what a join adds; 0 or less for a member that comes back with what it had.
func (g *Group) growth(req JoinRequest) int64 {
	m := g.members[req.MemberID]
	if m == nil && req.InstanceID != "" {
		m = g.members[g.instances[req.InstanceID]]
	}
	switch {
	case m != nil:
		return offered(req.Protocols) - offered(m.protocols) + int64(len(req.ClientID)+len(req.ClientHost)-len(m.clientID)-len(m.clientHost))
	case req.MemberID == "" && req.InstanceID == "" && req.RequireMemberID:
		return pendingOverhead
	}
	return memberOverhead + int64(2*len(req.ClientID)+len(req.ClientHost)+2*len(req.InstanceID)) + offered(req.Protocols)
}

// reserve takes n bytes of MaxMemory, or none. What takes none is never refused.
func (c *Coordinator) reserve(n int64) bool {
	if c.held.Add(n) <= c.opts.MaxMemory || n <= 0 {
		return true
	}
	c.held.Add(-n)
	return false
}

// full tells of a call that reserve refused. It is called without locks.
func (c *Coordinator) full(group string) {
	c.opts.Metrics.noMemory.Inc()
	c.opts.Log.Warn("groups hold all the memory that they may; new ones and new members wait", "group", group, "limit_bytes", c.opts.MaxMemory)
}

// recount takes over what e's group holds now, for what was reserved. It is called under e.mu.
func (c *Coordinator) recount(e *entry, reserved int64) {
	n := e.group.Bytes()
	c.opts.Metrics.memory.Set(float64(c.held.Add(n - e.counted - reserved)))
	e.counted = n
}

// uncount gives back all that e holds. It is called under e.mu.
func (c *Coordinator) uncount(e *entry) {
	c.opts.Metrics.memory.Set(float64(c.held.Add(-e.counted)))
	e.counted = 0
}

// Count is the number of groups in memory.
func (c *Coordinator) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.groups)
}

// Bytes is about the memory of one group's members, 0 for a group that is not in memory.
func (c *Coordinator) Bytes(group string) (n int) {
	c.peek(group, func(e *entry) { n = int(e.counted) })
	return n
}

// OffsetBytes is about the memory of an answer with all offsets of a group.
func (c *Coordinator) OffsetBytes(group string) int {
	n := unreadOffsets
	c.peek(group, func(e *entry) {
		if e.cache.state == loaded {
			n = offsetBytes(e.cache.rows)
		}
	})
	return n
}

func offsetBytes(rows map[catalog.PartitionID]catalog.CommittedOffset) (n int) {
	for _, r := range rows {
		n += fetchedOverhead + len(r.Metadata)
	}
	return n
}

// peek looks at a group that is in memory, under its lock, and is no use of it.
func (c *Coordinator) peek(group string, look func(*entry)) {
	c.mu.Lock()
	e := c.groups[group]
	c.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.gone {
		look(e)
	}
}
