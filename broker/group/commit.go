package group

import "time"

// CheckCommit says whether who may commit offsets now. A commit is a sign of
// life, as a heartbeat is.
func (g *Group) CheckCommit(now time.Duration, who Identity) Code {
	if g.state == Dead {
		return CoordinatorNotAvailable
	}
	if who.Generation < 0 && who.MemberID == "" && who.InstanceID == "" {
		// An administrator, or a consumer that only keeps its offsets here.
		if g.state != Empty {
			return UnknownMemberID
		}
		return OK
	}
	m, code := g.validate(who.MemberID, who.InstanceID)
	switch {
	case code != OK:
		return code
	case who.Generation != g.generation:
		return IllegalGeneration
	case g.state == CompletingRebalance:
		return RebalanceInProgress
	}
	if !m.isNew {
		g.renew(m, now)
	}
	return OK
}

// UseTopic says whether the current generation may commit to the topic that
// it knows as name and that now has this id. A topic that was deleted and made
// again under its old name since this generation used it is another topic:
// the offsets at hand are not its offsets, so the group has to join again
// before it may commit (G9).
func (g *Group) UseTopic(now time.Duration, name string, id [16]byte) (Code, []Answer) {
	if len(g.members) == 0 {
		return OK, nil
	}
	g.noteTopic(name, id)
	if g.topics[name] == id {
		return OK, nil
	}
	if g.state == Stable {
		g.prepareRebalance(now)
	}
	return RebalanceInProgress, g.flush()
}

// CheckDeleteOffsets says whether offsets of the named topic may be deleted.
func (g *Group) CheckDeleteOffsets(topic string) Code {
	switch {
	case g.state == Dead:
		return GroupIDNotFound
	case g.state == Empty:
		return OK
	case g.protocolType != protocolTypeConsumer:
		return NonEmptyGroup
	case g.subscribed == nil || g.subscribed[topic]:
		return GroupSubscribedToTopic
	}
	return OK
}

// Kill ends an empty group for good; others are NonEmptyGroup.
func (g *Group) Kill() Code {
	switch {
	case g.state == Dead:
		return GroupIDNotFound
	case g.state != Empty:
		return NonEmptyGroup
	}
	g.state = Dead
	clear(g.pending)
	g.earliest = never
	return OK
}

// Close ends the group whatever its state: every call that waits is answered
// with code, and clients look for their coordinator again.
func (g *Group) Close(code Code) []Answer {
	for _, m := range g.inOrder() {
		g.failJoin(m, code)
		g.failSync(m, code)
	}
	g.state = Dead
	g.earliest = never
	return g.flush()
}

// Describe is the group as DescribeGroups shows it.
func (g *Group) Describe() Description {
	d := Description{Group: g.id, State: g.state, ProtocolType: g.protocolType}
	if g.state == Stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.inOrder() {
		md := MemberDescription{MemberID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost}
		if g.state == Stable {
			md.Metadata, md.Assignment = m.metadata(g.protocol), m.assignment
		}
		d.Members = append(d.Members, md)
	}
	return d
}

// List is the group as ListGroups shows it.
func (g *Group) List() Listing {
	return Listing{Group: g.id, ProtocolType: g.protocolType, State: g.state}
}

// noteTopic remembers which topic this generation means by name, unless it
// does already.
func (g *Group) noteTopic(name string, id [16]byte) {
	if len(g.members) == 0 {
		return
	}
	if _, ok := g.topics[name]; !ok {
		if g.topics == nil {
			g.topics = map[string][16]byte{}
		}
		g.topics[name] = id
	}
}
