package replication

import (
	"fmt"
	"slices"

	"tidemark/catalog"
)

// TooFewBrokersError says that a replication factor cannot be met; Kafka's INVALID_REPLICATION_FACTOR.
type TooFewBrokersError struct{ Want, Registered, Live int }

func (e TooFewBrokersError) Error() string {
	return fmt.Sprintf("replication factor %d is larger than the %d brokers that there are, %d of them live", e.Want, e.Registered, e.Live)
}

// DefaultFactor is the replication factor of a topic that asks for none, where nothing else is set.
func DefaultFactor(live int) int { return min(3, max(1, live)) }

// Place puts rf replicas of each of n partitions on brokers. Preferred leaders go round-robin from first on. Each further
// replica goes to the rack that has fewest of the partition's replicas, there to the broker that was given fewest, and of equal
// ones to the next in turn; the turn moves on with each round over the brokers, so that a broker's leaderships fail over to many.
// Brokers that are not live get replicas only where the live ones are too few, the last ones: one that is being started again,
// or whose lease has run out because its machine was slow, counts as in Kafka. rf 0 or below means DefaultFactor of the live ones.
func Place(brokers []catalog.Broker, n, rf, first int) ([][]catalog.BrokerID, error) {
	var live, away []catalog.Broker
	for _, b := range brokers {
		if b.Live {
			live = append(live, b)
		} else {
			away = append(away, b)
		}
	}
	if rf <= 0 {
		rf = DefaultFactor(len(live))
	}
	if len(live) == 0 || len(brokers) < rf {
		return nil, TooFewBrokersError{Want: rf, Registered: len(brokers), Live: len(live)}
	}
	live, away = byRack(live), byRack(away)
	given, givenAway := make([]int, len(live)), make([]int, len(away))
	out := make([][]catalog.BrokerID, n)
	for i := range out {
		turn := first + i
		taken, takenAway, racks := map[int]bool{}, map[int]bool{}, map[string]int{}
		for r := range min(rf, len(live)) {
			at := turn % len(live)
			if r > 0 {
				at = nextReplica(live, turn+1+i/len(live), taken, racks, given)
			}
			taken[at] = true
			racks[live[at].Rack]++
			given[at]++
			out[i] = append(out[i], live[at].ID)
		}
		for len(out[i]) < rf {
			at := nextReplica(away, turn, takenAway, racks, givenAway)
			takenAway[at] = true
			racks[away[at].Rack]++
			givenAway[at]++
			out[i] = append(out[i], away[at].ID)
		}
	}
	return out, nil
}

// nextReplica is the index in order of the broker that a partition's next replica goes to, seen from index from on.
func nextReplica(order []catalog.Broker, from int, taken map[int]bool, racks map[string]int, given []int) int {
	best := -1
	for step := range order {
		at := (from + step) % len(order)
		if taken[at] {
			continue
		}
		if best >= 0 {
			here, there := racks[order[at].Rack], racks[order[best].Rack]
			if here > there || here == there && given[at] >= given[best] {
				continue
			}
		}
		best = at
	}
	return best
}

// byRack orders brokers so that neighbours are in different racks as far as that can be.
func byRack(brokers []catalog.Broker) []catalog.Broker {
	racks := map[string][]catalog.Broker{}
	var names []string
	sorted := slices.Clone(brokers)
	slices.SortFunc(sorted, func(a, b catalog.Broker) int { return int(a.ID - b.ID) })
	for _, b := range sorted {
		if _, ok := racks[b.Rack]; !ok {
			names = append(names, b.Rack)
		}
		racks[b.Rack] = append(racks[b.Rack], b)
	}
	var out []catalog.Broker
	for len(out) < len(brokers) {
		for _, n := range names {
			if len(racks[n]) > 0 {
				out = append(out, racks[n][0])
				racks[n] = racks[n][1:]
			}
		}
	}
	return out
}
