package replication

import (
	"cmp"
	"slices"

	"tidemark/catalog"
)

// AssignSlots gives every coordinator slot whose holder is gone to the live broker with the fewest.
// Slots that have a live holder stay: a move makes every group of the slot join again.
func AssignSlots(held []catalog.SlotGuard, bs Brokers) []catalog.SlotMove {
	load := newSlotLoad(held, bs)
	var moves []catalog.SlotMove
	for _, g := range held {
		if load.holds(g) {
			continue
		}
		to := load.least()
		if to == catalog.NoBroker {
			return nil
		}
		load.count[to]++
		moves = append(moves, catalog.SlotMove{Slot: g.Slot, To: to, IfEpoch: g.Epoch})
	}
	return moves
}

// BalanceSlots moves slots from those brokers that hold more than their share to those that hold less.
func BalanceSlots(held []catalog.SlotGuard, bs Brokers) []catalog.SlotMove {
	load := newSlotLoad(held, bs)
	var moves []catalog.SlotMove
	for _, g := range held {
		to := load.least()
		if !load.holds(g) || load.count[g.Broker] <= load.count[to]+1 {
			continue
		}
		load.count[g.Broker]--
		load.count[to]++
		moves = append(moves, catalog.SlotMove{Slot: g.Slot, To: to, IfEpoch: g.Epoch})
	}
	return moves
}

// slotLoad counts slots per live broker.
type slotLoad struct {
	brokers Brokers
	live    []catalog.BrokerID // by id
	count   map[catalog.BrokerID]int
}

func newSlotLoad(held []catalog.SlotGuard, bs Brokers) slotLoad {
	l := slotLoad{brokers: bs, count: map[catalog.BrokerID]int{}}
	for id, b := range bs {
		if b.Live {
			l.live = append(l.live, id)
		}
	}
	slices.Sort(l.live)
	for _, g := range held {
		if l.holds(g) {
			l.count[g.Broker]++
		}
	}
	return l
}

// holds says whether the slot's holder lives.
func (l slotLoad) holds(g catalog.SlotGuard) bool {
	return g.Broker != catalog.NoBroker && l.brokers.live(catalog.Member{Broker: g.Broker, Incarnation: g.Incarnation})
}

// least is the live broker with the fewest slots, the lowest id among equals; NoBroker if none lives.
func (l slotLoad) least() catalog.BrokerID {
	if len(l.live) == 0 {
		return catalog.NoBroker
	}
	return slices.MinFunc(l.live, func(a, b catalog.BrokerID) int { return cmp.Compare(l.count[a], l.count[b]) })
}
