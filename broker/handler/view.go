package handler

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/group"
	"tidemark/broker/metadata"
	"tidemark/catalog"
)

// view is the cluster as a client of one listener is told of it (KIP-103, H29): brokers by the address
// that they advertise under that listener's name.
type view struct {
	im       *metadata.Image
	listener string
	live     map[catalog.BrokerID]catalog.Broker
	// offline are the answering broker's partitions that it cannot open or lead at present.
	offline map[catalog.PartitionID]error
}

// view shows what is known now to a client that came in by the named listener. A broker that may have been taken out
// without knowing it is not in it, if there are others (H17).
func (h *Handlers) view(listener string) view {
	v := viewOf(h.Metadata.Image(), listener)
	v.offline = h.Partitions.Offline()
	if len(v.live) > 1 && h.Partitions.InDoubt() {
		delete(v.live, h.Broker)
	}
	return v
}

// viewOf shows im to a client that came in by the named listener.
func viewOf(im *metadata.Image, listener string) view {
	v := view{im: im, listener: listener, live: map[catalog.BrokerID]catalog.Broker{}}
	for _, b := range im.Brokers() {
		v.live[b.ID] = b
	}
	return v
}

// address is where clients of the listener find the broker; false if it does not advertise one.
func (v view) address(b catalog.Broker) (catalog.Listener, bool) {
	i := slices.IndexFunc(b.Listeners, func(l catalog.Listener) bool { return l.Name == v.listener })
	if i < 0 {
		return catalog.Listener{}, false
	}
	return b.Listeners[i], true
}

// coordinator is the live broker that holds the slot of a group; false while nobody does.
func (v view) coordinator(name string) (catalog.Broker, bool) {
	g := v.im.Slot(group.SlotOf(name))
	b, ok := v.live[g.Broker]
	return b, ok && b.Incarnation == g.Incarnation
}

// controllerID is the broker that clients are told to ask as controller, -1 if there is none to be told.
func (h *Handlers) controllerID(v view) int32 {
	if _, live := v.live[h.Controller.ID()]; live {
		return int32(h.Controller.ID())
	}
	if _, live := v.live[h.Broker]; !live {
		return int32(catalog.NoBroker)
	}
	return int32(h.Broker)
}

// node is a live broker that the client can reach.
type node struct {
	id   int32
	host string
	port int32
	rack *string
}

// nodes lists the brokers that the client can reach, by id.
func (v view) nodes() []node {
	var ns []node
	for _, b := range v.im.Brokers() {
		l, ok := v.address(b)
		if _, live := v.live[b.ID]; !ok || !live {
			continue
		}
		n := node{id: int32(b.ID), host: l.Host, port: l.Port}
		if b.Rack != "" {
			n.rack = &b.Rack
		}
		ns = append(ns, n)
	}
	return ns
}

// known lists the registered brokers by id, without those that were decommissioned and are gone.
func (v view) known() []catalog.Broker {
	holds := map[catalog.BrokerID]bool{}
	for _, t := range v.im.Topics() {
		for _, p := range t.Partitions {
			for _, r := range p.Replicas {
				holds[r] = true
			}
		}
	}
	return slices.DeleteFunc(v.im.Registered(), func(b catalog.Broker) bool { return b.Leaving && !b.Live && !holds[b.ID] })
}

// standing is how a partition stands. code is LEADER_NOT_AVAILABLE while nobody leads it, and
// LISTENER_NOT_FOUND if its leader cannot be reached by the client's listener; leader is then -1.
type standing struct {
	code                        int16
	leader, epoch               int32
	replicas, isr, elr, offline []int32
}

// partition shows one partition.
func (v view) partition(p catalog.Partition) standing {
	s := standing{leader: int32(p.Leader), epoch: int32(p.LeaderEpoch), isr: members(p.ISR), elr: members(p.ELR)}
	for _, r := range p.Replicas {
		s.replicas = append(s.replicas, int32(r))
		if _, ok := v.live[r]; !ok {
			s.offline = append(s.offline, int32(r))
		}
	}
	leader, ok := v.live[p.Leader]
	if p.Leader == catalog.NoBroker || !ok || v.offline[p.ID] != nil {
		s.code, s.leader = kerr.LeaderNotAvailable.Code, int32(catalog.NoBroker)
	} else if _, ok := v.address(leader); !ok {
		s.code, s.leader = kerr.ListenerNotFound.Code, int32(catalog.NoBroker)
	}
	return s
}

func members(ms []catalog.Member) []int32 {
	ids := make([]int32, 0, len(ms))
	for _, m := range ms {
		ids = append(ids, int32(m.Broker))
	}
	return ids
}

// Everything is allowed until there are access rules: the operations of each kind of resource, as bits
// numbered by AclOperation (KIP-430).
const (
	topicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	groupOperations   = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11
	clusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	// noOperations says that the client did not ask.
	noOperations = -1 << 31
)

// operations is all where the client asked, else noOperations.
func operations(asked bool, all int32) int32 {
	if asked {
		return all
	}
	return noOperations
}
