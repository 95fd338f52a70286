package group

import "time"

// Sync takes a SyncGroup. The call tok is answered now or by a later method,
// exactly once.
func (g *Group) Sync(now time.Duration, tok Token, req SyncRequest) []Answer {
	m, code := g.validate(req.MemberID, req.InstanceID)
	if code == OK {
		code = g.checkSync(req)
	}
	if code != OK {
		g.out = append(g.out, Answer{Token: tok, Sync: &SyncResponse{Code: code}})
		return g.flush()
	}
	g.failSync(m, RebalanceInProgress) // the same member asks twice
	m.sync = tok
	delete(g.unsynced, m.id)
	if g.state == Stable {
		g.answerSync(now, m)
		return g.flush()
	}
	if m.id == g.leader {
		for _, a := range req.Assignments {
			if to := g.members[a.MemberID]; to != nil {
				to.assignment = a.Bytes
			}
		}
		g.state = Stable
		for _, o := range g.inOrder() {
			if o.sync != 0 {
				g.answerSync(now, o)
			}
		}
	}
	return g.flush()
}

func (g *Group) checkSync(req SyncRequest) Code {
	switch {
	case req.Generation != g.generation:
		return IllegalGeneration
	case req.ProtocolType != "" && req.ProtocolType != g.protocolType,
		req.Protocol != "" && req.Protocol != g.protocol:
		return InconsistentProtocol
	case g.state == PreparingRebalance:
		return RebalanceInProgress
	}
	return OK
}

func (g *Group) answerSync(now time.Duration, m *member) {
	g.out = append(g.out, Answer{Token: m.sync, Sync: &SyncResponse{
		ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.assignment,
	}})
	m.sync = 0
	g.renew(m, now)
	if len(g.unsynced) == 0 {
		g.syncDeadline = 0
	}
}

// Heartbeat keeps a member's session and tells it to join again while the
// group rebalances.
func (g *Group) Heartbeat(now time.Duration, who Identity) Code {
	m, code := g.validate(who.MemberID, who.InstanceID)
	switch {
	case code != OK:
		return code
	case who.Generation != g.generation:
		return IllegalGeneration
	}
	if !m.isNew {
		g.renew(m, now)
	}
	if g.state == PreparingRebalance {
		return RebalanceInProgress
	}
	return OK
}

// Leave takes members out, by id, instance id or both (KIP-345), and answers
// each.
func (g *Group) Leave(now time.Duration, who []LeaveMember) ([]LeaveResult, []Answer) {
	results := make([]LeaveResult, len(who))
	removed, forgotten := false, false
	for i, w := range who {
		results[i] = LeaveResult{LeaveMember: w}
		if _, promised := g.pending[w.MemberID]; promised && w.InstanceID == "" && g.state != Dead {
			delete(g.pending, w.MemberID)
			forgotten = true
			continue
		}
		id := w.MemberID
		if id == "" && w.InstanceID != "" {
			id = g.instances[w.InstanceID]
		}
		m, code := g.validate(id, w.InstanceID)
		if results[i].Code = code; code == OK {
			g.remove(m)
			removed = true
		}
	}
	if removed || forgotten && g.state == PreparingRebalance {
		g.settle(now)
	}
	return results, g.flush()
}
