package replication

import (
	"slices"

	"tidemark/catalog"
)

// FinishMove is the change that ends a partition's move once all of its target is in sync: the replicas
// that were to go leave the sets, and a leader among them gives way. False while the move is not done.
func FinishMove(p catalog.Partition, bs Brokers, set Settings) (catalog.Election, bool) {
	if len(p.Adding) == 0 && len(p.Removing) == 0 || p.Leader == catalog.NoBroker {
		return catalog.Election{}, false
	}
	goes := func(b catalog.BrokerID) bool { return slices.Contains(p.Removing, b) }
	target := slices.DeleteFunc(slices.Clone(p.Replicas), goes)
	isr := slices.DeleteFunc(slices.Clone(p.ISR), func(m catalog.Member) bool { return goes(m.Broker) })
	for _, b := range target {
		if !slices.ContainsFunc(isr, func(m catalog.Member) bool { return m.Broker == b && bs.live(m) }) {
			return catalog.Election{}, false
		}
	}
	after := p
	after.Replicas = target
	e := catalog.Election{ID: p.ID, Leader: p.Leader, ISR: isr, ELR: catalog.NextELR(after, isr, set.MinISR, bs.current),
		Replicas: target, IfVersion: p.Version, IfTopic: set.Topic}
	if goes(p.Leader) {
		e.Leader = preferred(target, isr).Broker
	}
	return e, true
}
