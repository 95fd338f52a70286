package group

import "time"

// prepareRebalance ends the current generation and waits for everybody to
// join again.
func (g *Group) prepareRebalance(now time.Duration) {
	for _, m := range g.inOrder() {
		if m.sync != 0 {
			g.failSync(m, RebalanceInProgress)
			g.renew(m, now)
		}
		if g.state == CompletingRebalance {
			m.assignment = nil
		}
	}
	clear(g.unsynced)
	g.syncDeadline = 0
	timeout := g.maxRebalanceTimeout()
	g.initial = g.state == Empty && g.cfg.InitialRebalanceDelay > 0
	if g.initial {
		g.initialLeft = max(timeout-g.cfg.InitialRebalanceDelay, 0)
		timeout = g.cfg.InitialRebalanceDelay
	}
	g.newcomer = false
	g.state = PreparingRebalance
	g.joinDeadline = now + timeout
	g.arm(g.joinDeadline)
	g.maybeCompleteJoin(now)
}

// maybeCompleteJoin completes the join phase once everybody who was told to
// come has come.
func (g *Group) maybeCompleteJoin(now time.Duration) {
	if len(g.members) == 0 || !g.initial && len(g.pending) == 0 && g.awaitingJoin() == len(g.members) {
		g.completeJoin(now)
	}
}

// joinDeadlinePassed either prolongs the initial delay, if somebody came
// during its last step, or goes on without those who are missing.
func (g *Group) joinDeadlinePassed(now time.Duration) {
	if g.initial && g.newcomer && g.initialLeft > 0 {
		step := min(g.cfg.InitialRebalanceDelay, g.initialLeft)
		g.initialLeft -= step
		g.newcomer = false
		g.joinDeadline = now + step
		g.arm(g.joinDeadline)
		return
	}
	g.completeJoin(now)
}

// completeJoin starts the next generation with those who have joined. Dynamic
// members that have not are out; static ones stay until their session ends.
func (g *Group) completeJoin(now time.Duration) {
	g.initial = false
	for _, m := range g.inOrder() {
		if m.join == 0 && !m.static() {
			g.remove(m)
		}
	}
	if len(g.members) > 0 && !g.electJoined() {
		// Only static members that are away: wait for one, or for their
		// sessions to end.
		g.joinDeadline = now + g.maxRebalanceTimeout()
		g.arm(g.joinDeadline)
		return
	}
	g.joinDeadline = 0
	g.generation = max(g.generation+1, 1) // after 2^31-1 comes 1
	g.topics = nil
	clear(g.unsynced)
	if len(g.members) == 0 {
		g.state, g.protocol, g.leader, g.emptySince = Empty, noProtocol, "", now
		g.subscribed = nil
		return
	}
	g.state = CompletingRebalance
	g.protocol = g.selectProtocol()
	g.subscribed = g.subscriptions()
	for _, m := range g.inOrder() {
		m.assignment = nil
		if m.join != 0 {
			g.answerJoin(now, m)
			g.unsynced[m.id] = true
		}
	}
	g.syncDeadline = now + g.maxRebalanceTimeout()
	g.arm(g.syncDeadline)
}

// electJoined keeps the leader if it has joined and takes the first who has
// otherwise.
func (g *Group) electJoined() bool {
	if l := g.members[g.leader]; l != nil && l.join != 0 {
		return true
	}
	for _, m := range g.inOrder() {
		if m.join != 0 {
			g.leader = m.id
			return true
		}
	}
	return false
}

// syncDeadlinePassed removes those who were told the generation and never
// synced; without it a dead leader would hold the others for ever.
func (g *Group) syncDeadlinePassed(now time.Duration) {
	g.syncDeadline = 0
	removed := false
	for _, m := range g.inOrder() {
		if g.unsynced[m.id] {
			g.remove(m)
			removed = true
		}
	}
	if removed {
		g.settle(now)
	}
}

// Tick does what is due at now and returns the answers that this causes.
func (g *Group) Tick(now time.Duration) []Answer {
	if now < g.earliest {
		return nil
	}
	forgotten := false
	for id, at := range g.pending {
		if at <= now {
			delete(g.pending, id)
			forgotten = true
		}
	}
	lost := false
	for _, m := range g.inOrder() {
		if m.expired(now) {
			g.remove(m)
			lost = true
		}
	}
	// A promised id holds up only a join phase.
	if lost || forgotten && g.state == PreparingRebalance {
		g.settle(now)
	}
	if g.state == PreparingRebalance && g.joinDeadline <= now {
		g.joinDeadlinePassed(now)
	}
	if g.syncDeadline != 0 && g.syncDeadline <= now {
		g.syncDeadlinePassed(now)
	}
	g.rearm()
	return g.flush()
}

func (g *Group) rearm() {
	g.earliest = never
	for _, at := range g.pending {
		g.arm(at)
	}
	for _, m := range g.members {
		if m.isNew || m.join == 0 && m.sync == 0 {
			g.arm(m.deadline)
		}
	}
	if g.state == PreparingRebalance {
		g.arm(g.joinDeadline)
	}
	if g.syncDeadline != 0 {
		g.arm(g.syncDeadline)
	}
}
