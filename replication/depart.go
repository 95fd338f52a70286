package replication

import (
	"slices"

	"tidemark/catalog"
)

// Depart decides what becomes of what brokers leave behind: they go out of every in-sync set that has
// another member, partitions that they led get a leader where one can be had, and their slots go to
// those who stay. It is a catalog.Departure once settings are given.
func Depart(l catalog.Left, of func(catalog.PartitionID) Settings) catalog.Given {
	bs := ByID(l.Brokers)
	var given catalog.Given
	for _, p := range l.Partitions {
		if e, ok := depart(p, l.Leaving, bs, of(p.ID)); ok {
			given.Elections = append(given.Elections, e)
		}
	}
	given.Slots = AssignSlots(l.Slots, bs)
	return given
}

func depart(p catalog.Partition, leaving []catalog.BrokerID, bs Brokers, set Settings) (catalog.Election, bool) {
	if p.Leader == catalog.NoBroker || slices.Contains(leaving, p.Leader) {
		e, loss, ok := Elect(p, bs, set, nil)
		// What may lose records is decided by the controller with open eyes, not while brokers leave.
		return e, ok && loss == NoLoss
	}
	goes := func(m catalog.Member) bool { return slices.Contains(leaving, m.Broker) }
	isr := slices.DeleteFunc(slices.Clone(p.ISR), goes)
	if len(isr) == len(p.ISR) {
		return catalog.Election{}, false
	}
	return catalog.Election{
		ID: p.ID, Leader: p.Leader, ISR: isr, ELR: catalog.NextELR(p, isr, set.MinISR, bs.current), IfVersion: p.Version, IfTopic: set.Topic,
	}, true
}
