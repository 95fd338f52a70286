package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offers reports whether m's protocols are exactly ps.
func (m *member) offers(ps []Protocol) bool {
	if len(m.protocols) != len(ps) {
		return false
	}
	for i, p := range ps {
		if m.protocols[i].Name != p.Name || !bytes.Equal(m.protocols[i].Metadata, p.Metadata) {
			return false
		}
	}
	return true
}

func (m *member) knows(protocol string) bool {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return true
		}
	}
	return false
}

func (g *Group) allKnow(protocol string) bool {
	for _, m := range g.members {
		if !m.knows(protocol) {
			return false
		}
	}
	return true
}

// supports reports whether a member with req's protocols can be in the group.
func (g *Group) supports(req JoinRequest) bool {
	if req.ProtocolType == "" || len(req.Protocols) == 0 {
		return false
	}
	if len(g.members) == 0 {
		return true
	}
	if req.ProtocolType != g.protocolType {
		return false
	}
	for _, p := range req.Protocols {
		if g.allKnow(p.Name) {
			return true
		}
	}
	return false
}

// selectProtocol takes the vote: everybody votes for the first of its
// protocols that all know. Of equals the one that the earliest member prefers
// wins, so the choice is the same each time.
func (g *Group) selectProtocol() string {
	votes := map[string]int{}
	members := g.inOrder()
	for _, m := range members {
		for _, p := range m.protocols {
			if g.allKnow(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, m := range members {
		for _, p := range m.protocols {
			if votes[p.Name] > votes[best] {
				best = p.Name
			}
		}
	}
	return best
}

// subscriptions are the topics that the members of a consumer group read, nil
// if they cannot be told.
func (g *Group) subscriptions() map[string]bool {
	if g.protocolType != protocolTypeConsumer {
		return nil
	}
	topics := map[string]bool{}
	for _, m := range g.members {
		var meta kmsg.ConsumerMemberMetadata
		if meta.ReadFrom(m.metadata(g.protocol)) != nil {
			return nil
		}
		for _, t := range meta.Topics {
			topics[t] = true
		}
	}
	return topics
}
