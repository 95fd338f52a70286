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

// Settings are what decisions about a partition need of its topic's configuration.
type Settings struct {
	MinISR  int             // min.insync.replicas
	Unclean bool            // unclean.leader.election.enable
	Topic   catalog.Version // of the topic that they were read from
}

// Brokers are the registered brokers, live or not.
type Brokers map[catalog.BrokerID]catalog.Broker

// ByID makes Brokers of a list.
func ByID(list []catalog.Broker) Brokers {
	out := make(Brokers, len(list))
	for _, b := range list {
		out[b.ID] = b
	}
	return out
}

// current says whether a member is the registered incarnation of its broker.
func (bs Brokers) current(m catalog.Member) bool {
	b, ok := bs[m.Broker]
	return ok && b.Incarnation == m.Incarnation
}

func (bs Brokers) live(m catalog.Member) bool { return bs[m.Broker].Live && bs.current(m) }

// Elect decides the leader of one partition that has none, or returns false if it has to stay
// offline. Order: ISR, then ELR, then, if RF is 1 or unclean election is allowed, the live replica whose log
// reaches farthest (KIP-966; DESIGN §6), as far as logs tell. Members that are not live leave the ISR, for the ELR if it
// gets too small.
func Elect(p catalog.Partition, bs Brokers, set Settings, logs Logs) (catalog.Election, Loss, bool) {
	e := catalog.Election{ID: p.ID, IfVersion: p.Version, IfTopic: set.Topic}
	gone := func(m catalog.Member) bool { return !bs.live(m) }

	inSync := slices.DeleteFunc(slices.Clone(p.ISR), gone)
	if len(inSync) > 0 {
		e.Leader, e.ISR = preferred(p.Replicas, inSync).Broker, inSync
		e.ELR = catalog.NextELR(p, e.ISR, set.MinISR, bs.current)
		return e, NoLoss, true
	}
	eligible := slices.DeleteFunc(slices.Clone(p.ELR), gone)
	if len(eligible) > 0 {
		leader := preferred(p.Replicas, eligible)
		e.Leader, e.ISR = leader.Broker, []catalog.Member{leader}
		e.ELR = catalog.NextELR(p, e.ISR, set.MinISR, bs.current)
		return e, NoLoss, true
	}
	if len(p.Replicas) > 1 && !set.Unclean {
		return catalog.Election{}, NoLoss, false
	}
	live := liveReplicas(p, bs)
	if len(live) == 0 {
		return catalog.Election{}, NoLoss, false
	}
	e.Leader = logs.longest(live)
	e.ISR = []catalog.Member{{Broker: e.Leader, Incarnation: bs[e.Leader].Incarnation}}
	return e, MayLose, true
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

// Preferred lists the elections that give partitions back to the first of their replicas where it is
// in sync and somebody else leads. Sets stay as they are.
func Preferred(ps []catalog.Partition, bs Brokers) []catalog.Election {
	var es []catalog.Election
	for _, p := range ps {
		if len(p.Replicas) == 0 || p.Leader == catalog.NoBroker || p.Leader == p.Replicas[0] {
			continue
		}
		first := p.Replicas[0]
		if slices.ContainsFunc(p.ISR, func(m catalog.Member) bool { return m.Broker == first && bs.live(m) }) {
			es = append(es, catalog.Election{ID: p.ID, Leader: first, ISR: p.ISR, ELR: p.ELR, IfVersion: p.Version})
		}
	}
	return es
}
