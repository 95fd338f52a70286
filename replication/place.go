package replication

import (
	"fmt"
	"slices"

	"tidemark/catalog"
)

// TooFewBrokersError says that a replication factor cannot be met; Kafka's INVALID_REPLICATION_FACTOR.
type TooFewBrokersError struct{ Want, Live int }

func (e TooFewBrokersError) Error() string {
	return fmt.Sprintf("replication factor %d is larger than the %d live brokers", e.Want, e.Live)
}

// Place puts rf replicas of each of n partitions on live brokers, preferred leaders round-robin from
// first on, neighbours taken from alternating racks. rf 0 or below means min(3, live).
func Place(live []catalog.Broker, n, rf, first int) ([][]catalog.BrokerID, error) {
	if rf <= 0 {
		rf = min(3, max(1, len(live)))
	}
	if len(live) < rf {
		return nil, TooFewBrokersError{Want: rf, Live: len(live)}
	}
	order := byRack(live)
	out := make([][]catalog.BrokerID, n)
	for i := range out {
		for r := range rf {
			out[i] = append(out[i], order[(first+i+r)%len(order)].ID)
		}
	}
	return out, nil
}

// byRack orders brokers so that neighbours are in different racks as far as that can be.
func byRack(live []catalog.Broker) []catalog.Broker {
	racks := map[string][]catalog.Broker{}
	var names []string
	sorted := slices.Clone(live)
	slices.SortFunc(sorted, func(a, b catalog.Broker) int { return int(a.ID - b.ID) })
	for _, b := range sorted {
		if _, ok := racks[b.Rack]; !ok {
			names = append(names, b.Rack)
		}
		racks[b.Rack] = append(racks[b.Rack], b)
	}
	var out []catalog.Broker
	for len(out) < len(live) {
		for _, n := range names {
			if len(racks[n]) > 0 {
				out = append(out, racks[n][0])
				racks[n] = racks[n][1:]
			}
		}
	}
	return out
}
