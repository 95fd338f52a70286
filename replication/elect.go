package replication

import (
	"slices"

	"tidemark/catalog"
)

// Loss says what an election may have cost.
type Loss int

const (
	// NoLoss: the leader holds every acknowledged record.
	NoLoss Loss = iota
	// MayLose: the leader comes from outside ISR and ELR; what only the lost disks held is gone (H5).
	MayLose
)

// Elect decides the leader of one partition that has none, or returns false if it has to stay
// offline. live maps the live brokers to their registered incarnations. Order: ISR, then ELR, then, if
// RF is 1 or unclean is set, any live replica (KIP-966; DESIGN §6).
func Elect(p catalog.Partition, live map[catalog.BrokerID]catalog.Incarnation, unclean bool) (catalog.Election, Loss, bool) {
	isLive := func(m catalog.Member) bool { return live[m.Broker] == m.Incarnation && m.Incarnation != 0 }
	e := catalog.Election{ID: p.ID, IfVersion: p.Version, ELR: p.ELR}

	inSync := slices.DeleteFunc(slices.Clone(p.ISR), func(m catalog.Member) bool { return !isLive(m) })
	if len(inSync) > 0 {
		e.Leader, e.ISR = preferred(p.Replicas, inSync).Broker, inSync
		return e, NoLoss, true
	}
	eligible := slices.DeleteFunc(slices.Clone(p.ELR), func(m catalog.Member) bool { return !isLive(m) })
	if len(eligible) > 0 {
		leader := preferred(p.Replicas, eligible)
		e.Leader, e.ISR = leader.Broker, []catalog.Member{leader}
		e.ELR = slices.DeleteFunc(slices.Clone(p.ELR), func(m catalog.Member) bool { return m == leader })
		return e, NoLoss, true
	}
	if len(p.Replicas) > 1 && !unclean {
		return catalog.Election{}, NoLoss, false
	}
	for _, r := range p.Replicas {
		if inc, ok := live[r]; ok {
			e.Leader, e.ISR, e.ELR = r, []catalog.Member{{Broker: r, Incarnation: inc}}, nil
			return e, MayLose, true
		}
	}
	return catalog.Election{}, NoLoss, false
}

// preferred is the first of replicas that is in ms; ms is not empty.
func preferred(replicas []catalog.BrokerID, ms []catalog.Member) catalog.Member {
	for _, r := range replicas {
		if i := slices.IndexFunc(ms, func(m catalog.Member) bool { return m.Broker == r }); i >= 0 {
			return ms[i]
		}
	}
	return ms[0]
}
