package partition

import (
	"context"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

const (
	// isrRound is how often in-sync sets are looked at even if nobody asks, and the pause after a change that was
	// not made.
	isrRound = 250 * time.Millisecond
	// alterTime bounds one call; after alterLanding an unanswered one cannot be executed any more, because the
	// server gives up first (H13).
	alterTime    = 3 * time.Second
	alterLanding = 15 * time.Second
	// awayLong is how long the catalog must have been away for everybody to get time to renew: the length of a
	// lease, during which nobody is taken out after it (H7).
	awayLong = 2500 * time.Millisecond
	// alterMax bounds the partitions of one transaction.
	alterMax = 2000
)

func (s *Set) pokeISR() {
	select {
	case s.wakeISR <- struct{}{}:
	default:
	}
}

// runISR changes the in-sync sets of what this broker leads, all that are due in one transaction, until ctx ends.
func (s *Set) runISR(ctx context.Context) error {
	tick := time.NewTicker(min(isrRound, max(s.opts.LagMax/4, 10*time.Millisecond)))
	defer tick.Stop()
	var shrinkFrom, from time.Duration // not before
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wakeISR:
			if s.env.mono() < from {
				continue
			}
		case <-tick.C:
		}
		if s.opts.CatalogAge != nil && s.opts.CatalogAge() > awayLong {
			shrinkFrom = s.env.mono() + awayLong
		}
		if !s.changeISRs(ctx, s.env.mono() >= shrinkFrom) {
			from = s.env.mono() + isrRound
		}
	}
}

// isrAsk is one partition's change on its way.
type isrAsk struct {
	p      *Partition
	lead   *leadership
	change replication.Change
}

// changeISRs reports whether all that was asked for was done.
func (s *Set) changeISRs(ctx context.Context, mayShrink bool) (done bool) {
	now := s.env.mono()
	var asks []isrAsk
	for _, p := range s.All() {
		if l, c, ok := p.planISR(now, mayShrink); ok {
			asks = append(asks, isrAsk{p, l, c})
		}
		if len(asks) == alterMax {
			break // the rest at the next round
		}
	}
	if len(asks) == 0 {
		return true
	}
	rows, err := s.alter(ctx, asks)
	now = s.env.mono()
	done = err == nil
	for _, a := range asks {
		if err != nil {
			a.p.answerISR(a.lead, nil, now, now+alterLanding)
		} else if row, ok := rows[a.p.ID]; ok {
			a.p.answerISR(a.lead, &row, now, 0)
			done = a.log(row) && done
		}
	}
	if err != nil && ctx.Err() == nil && !s.isrAway {
		s.opts.Log.Warn("in-sync sets are not changed; high watermarks count both sets", "partitions", len(asks), "error", err)
	}
	s.isrAway = err != nil
	return done
}

func (s *Set) alter(ctx context.Context, asks []isrAsk) (map[catalog.PartitionID]catalog.Partition, error) {
	changes := make([]catalog.ISRChange, len(asks))
	epochs := make([]record.Epoch, len(asks))
	for i, a := range asks {
		version := catalog.Version(a.p.cfgVersion.Load()) // before the settings, which may be newer
		changes[i] = catalog.ISRChange{
			ID: a.p.ID, IfVersion: a.change.IfVersion, ISR: a.change.ISR, MinISR: a.p.cfg.Load().MinInsyncReplicas, IfTopic: version,
		}
		epochs[i] = a.lead.guard.Epoch
	}
	ctx, cancel := context.WithTimeout(ctx, alterTime)
	defer cancel()
	rows, err := s.opts.Catalog.AlterISR(ctx, s.opts.Broker, s.opts.Incarnation, epochs, changes)
	out := make(map[catalog.PartitionID]catalog.Partition, len(rows))
	for _, r := range rows {
		out[r.ID] = r
	}
	return out, err
}

// log says what became of the change, and reports whether it was made.
func (a isrAsk) log(row catalog.Partition) bool {
	if row.Version <= a.change.IfVersion || row.LeaderEpoch != a.lead.guard.Epoch {
		a.p.out.Debug("the catalog refuses an in-sync set", "asked", a.change.ISR, "row", row)
		return false
	}
	ids := make([]catalog.BrokerID, len(row.ISR))
	for i, m := range row.ISR {
		ids[i] = m.Broker
	}
	a.p.out.Info("in-sync set", "isr", ids, "epoch", row.LeaderEpoch)
	return true
}
