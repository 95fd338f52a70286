package partition

import (
	"slices"

	"tidemark/catalog"
)

// Throttles reports whether what is sent to a replica counts against this broker's leader.replication.throttled.rate: the
// topic's list names this leader, and the replica is not in sync, so that nobody waits for it.
func (p *Partition) Throttles(replica catalog.BrokerID) bool {
	cfg := p.cfg.Load()
	if !cfg.LeaderThrottled.Any() {
		return false
	}
	l := p.role.Load()
	if l == nil || !cfg.LeaderThrottled.Has(p.ID.Partition, int32(l.guard.Broker)) {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !slices.ContainsFunc(l.followers.ISR(), func(m catalog.Member) bool { return m.Broker == replica })
}
