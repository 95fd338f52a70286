package catalog

import "context"

// Resignations are a broker's own word that it cannot hold partitions any more.
type Resignations interface {
	// Resign takes the broker out of partitions whose log has failed under it (H28): it leads none of them, and is in no
	// ISR, save one whose last member it is, and in no ELR. Who leads next is the controller's to say. One transaction,
	// rows locked in order, the counter last; nothing changes where nothing is to be changed. ErrFenced if the
	// incarnation is not the registered one, ErrRewound while commits are known to be missing.
	Resign(ctx context.Context, b BrokerID, inc Incarnation, ps []PartitionID) error
}

// ResignFrom is a partition's row after a broker has resigned from it, and whether that changes anything. The only
// member of an ISR stays all that it is: nobody else has its records (H5).
func ResignFrom(p Partition, b BrokerID) (Partition, bool) {
	others := membersWithout(p.ISR, b)
	elr := membersWithout(p.ELR, b)
	if len(others) == 0 {
		others = p.ISR
	}
	led := p.Leader == b && len(membersWithout(p.ISR, b)) > 0
	if !led && len(others) == len(p.ISR) && len(elr) == len(p.ELR) {
		return p, false
	}
	p.ISR, p.ELR = others, elr
	if led {
		p.Leader = NoBroker
	}
	return p, true
}

func membersWithout(ms []Member, b BrokerID) []Member {
	var out []Member
	for _, m := range ms {
		if m.Broker != b {
			out = append(out, m)
		}
	}
	return out
}
