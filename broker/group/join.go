package group

import "time"

// Join takes a JoinGroup. newID is the member id for one that has none. The
// call tok is answered now or by a later method, exactly once.
func (g *Group) Join(now time.Duration, tok Token, req JoinRequest, newID string) []Answer {
	if req.RebalanceTimeout <= 0 {
		req.RebalanceTimeout = req.SessionTimeout
	}
	switch {
	case g.state == Dead:
		g.refuseJoin(tok, req.MemberID, CoordinatorNotAvailable)
	case req.SessionTimeout < g.cfg.MinSessionTimeout || req.SessionTimeout > g.cfg.MaxSessionTimeout:
		g.refuseJoin(tok, req.MemberID, InvalidSessionTimeout)
	case !g.supports(req):
		g.refuseJoin(tok, req.MemberID, InconsistentProtocol)
	case !g.hasRoom(req):
		g.refuseJoin(tok, req.MemberID, GroupMaxSizeReached)
	case req.MemberID == "":
		g.joinUnknown(now, tok, req, newID)
	default:
		g.joinKnown(now, tok, req)
	}
	return g.flush()
}

// hasRoom applies group.max.size. Members that come back are always let in,
// and during a rebalance only those who have joined it count.
func (g *Group) hasRoom(req JoinRequest) bool {
	m := g.members[req.MemberID]
	if m == nil && req.MemberID == "" && req.InstanceID != "" {
		m = g.members[g.instances[req.InstanceID]]
	}
	if g.state == PreparingRebalance {
		return m != nil && m.join != 0 || g.awaitingJoin() < g.cfg.MaxSize
	}
	return m != nil || len(g.members) < g.cfg.MaxSize
}

func (g *Group) joinUnknown(now time.Duration, tok Token, req JoinRequest, newID string) {
	if req.InstanceID != "" {
		if old := g.members[g.instances[req.InstanceID]]; old != nil {
			g.replaceStatic(now, tok, old, req, newID)
			return
		}
		g.add(now, tok, newID, req)
		return
	}
	if req.RequireMemberID {
		// Until it comes back it costs an entry of this map and nothing of the group.
		g.pending[newID] = now + req.SessionTimeout
		g.arm(g.pending[newID])
		g.refuseJoin(tok, newID, MemberIDRequired)
		return
	}
	g.add(now, tok, newID, req)
}

func (g *Group) joinKnown(now time.Duration, tok Token, req JoinRequest) {
	if _, promised := g.pending[req.MemberID]; promised && req.InstanceID == "" {
		delete(g.pending, req.MemberID)
		g.add(now, tok, req.MemberID, req)
		return
	}
	m, code := g.validate(req.MemberID, req.InstanceID)
	if code != OK {
		g.refuseJoin(tok, req.MemberID, code)
		return
	}
	unchanged := m.offers(req.Protocols)
	switch g.state {
	case CompletingRebalance:
		if unchanged {
			// Its answer was lost: the same one again.
			g.update(now, tok, m, req)
			g.answerJoin(now, m)
			return
		}
	case Stable:
		if unchanged && m.id != g.leader {
			g.update(now, tok, m, req)
			g.answerJoin(now, m)
			return
		}
	}
	g.update(now, tok, m, req)
	g.rebalanceOrComplete(now)
}

func (g *Group) rebalanceOrComplete(now time.Duration) {
	if g.state == PreparingRebalance {
		g.maybeCompleteJoin(now)
		return
	}
	g.prepareRebalance(now)
}

// add makes a new member, which waits for the next generation.
func (g *Group) add(now time.Duration, tok Token, id string, req JoinRequest) {
	m := &member{id: id, instanceID: req.InstanceID, seq: g.nextSeq, isNew: true}
	g.nextSeq++
	if len(g.members) == 0 {
		g.protocolType = req.ProtocolType
	}
	g.members[id] = m
	if m.static() {
		g.instances[m.instanceID] = id
	}
	if g.leader == "" {
		g.leader = id
	}
	g.update(now, tok, m, req)
	m.deadline = now + g.cfg.NewMemberTimeout
	g.arm(m.deadline)
	g.newcomer = true
	g.rebalanceOrComplete(now)
}

// update takes over what a join says; new timeouts count from now on.
func (g *Group) update(now time.Duration, tok Token, m *member, req JoinRequest) {
	// The same member asks twice: its first connection is gone.
	g.failJoin(m, RebalanceInProgress)
	g.failSync(m, RebalanceInProgress)
	m.join = tok
	m.protocols = req.Protocols
	m.clientID, m.clientHost = req.ClientID, req.ClientHost
	m.session, m.rebalance = req.SessionTimeout, req.RebalanceTimeout
	if !m.isNew {
		g.renew(m, now)
	}
}

// replaceStatic gives a restarted static member its new id at once. In a
// stable group it keeps the assignment and nobody else notices (KIP-345).
func (g *Group) replaceStatic(now time.Duration, tok Token, old *member, req JoinRequest, newID string) {
	leader := g.leader
	g.failJoin(old, FencedInstanceID)
	g.failSync(old, FencedInstanceID)
	delete(g.members, old.id)
	if g.unsynced[old.id] {
		delete(g.unsynced, old.id)
		g.unsynced[newID] = true
	}
	m := old
	if g.leader == old.id {
		g.leader = newID
	}
	m.id = newID
	g.members[newID] = m
	g.instances[m.instanceID] = newID
	g.update(now, tok, m, req)
	if g.state != Stable || g.selectProtocol() != g.protocol {
		g.rebalanceOrComplete(now)
		return
	}
	resp := g.joinResponse(m)
	if g.leader == newID {
		if req.CanSkipAssignment {
			resp.SkipAssignment = true // KIP-814: it leads, but must not assign again
		} else {
			// An old client that thinks it leads would compute an assignment
			// that nobody asked for; with the old id it follows.
			resp.LeaderID, resp.Members = leader, nil
		}
	}
	m.join, m.isNew = 0, false
	g.renew(m, now)
	g.out = append(g.out, Answer{Token: tok, Join: resp})
}

// joinResponse is what m is told of the current generation.
func (g *Group) joinResponse(m *member) *JoinResponse {
	resp := &JoinResponse{
		Generation: g.generation, ProtocolType: g.protocolType, Protocol: g.protocol, LeaderID: g.leader, MemberID: m.id,
	}
	if m.id == g.leader {
		for _, o := range g.inOrder() {
			resp.Members = append(resp.Members, JoinMember{MemberID: o.id, InstanceID: o.instanceID, Metadata: o.metadata(g.protocol)})
		}
	}
	return resp
}

func (g *Group) answerJoin(now time.Duration, m *member) {
	g.out = append(g.out, Answer{Token: m.join, Join: g.joinResponse(m)})
	m.join, m.isNew = 0, false
	g.renew(m, now)
}
