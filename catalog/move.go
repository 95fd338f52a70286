package catalog

import (
	"fmt"
	"slices"
)

// BeginMove is the row of p once m has begun: replicas are the target and then what is to go. live says
// whether a broker is, and may get replicas. What an earlier move was adding and this one does not want is gone at once, from
// the sets too; a leader among it leads no more.
func BeginMove(p Partition, m Move, live func(BrokerID) bool) (Partition, error) {
	origin := without(p.Replicas, p.Adding)
	target := m.Target
	if target == nil {
		if len(p.Adding) == 0 && len(p.Removing) == 0 {
			return p, fmt.Errorf("%w: %s", ErrNoMove, p.ID)
		}
		target = origin
	}
	if len(target) == 0 {
		return p, fmt.Errorf("%w: %s would have no replicas", ErrInvalid, p.ID)
	}
	for i, b := range target {
		if slices.Contains(target[:i], b) {
			return p, fmt.Errorf("%w: broker %d twice among the replicas of %s", ErrInvalid, b, p.ID)
		}
		if !slices.Contains(p.Replicas, b) && !live(b) {
			return p, fmt.Errorf("%w: broker %d is not live, or leaves the cluster, and cannot get %s", ErrInvalid, b, p.ID)
		}
	}
	p.Adding, p.Removing = without(target, origin), without(origin, target)
	p.Replicas = slices.Concat(target, p.Removing)
	gone := func(m Member) bool { return !slices.Contains(p.Replicas, m.Broker) }
	isr := slices.DeleteFunc(slices.Clone(p.ISR), gone)
	if len(isr) == 0 {
		return p, fmt.Errorf("%w: only brokers that %s would lose are in sync", ErrInvalid, p.ID)
	}
	p.ISR, p.ELR = isr, slices.DeleteFunc(slices.Clone(p.ELR), gone)
	if p.Leader != NoBroker && !slices.Contains(p.Replicas, p.Leader) {
		p.Leader = NoBroker
	}
	return p, nil
}

// without is a less what is in b; nil if nothing is left.
func without(a, b []BrokerID) []BrokerID {
	var out []BrokerID
	for _, x := range a {
		if !slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
