package partition

import (
	"context"
	"time"

	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
)

// BreakLog does what a failed write or fsync does.
func (p *Partition) BreakLog() { _ = p.appendFailed(hotlog.ErrFailed) }

// Resign does at once what the housekeeping does every second.
func (s *Set) Resign(ctx context.Context) { s.resign(ctx) }

// OnClock makes the set's clock run ahead of the monotonic one, by what ahead says. Before Reconcile.
func (s *Set) OnClock(ahead func() time.Duration) {
	mono := s.env.mono
	s.env.mono = func() time.Duration { return mono() + ahead() }
}

// ReplicaEnd is how far the leader knows a follower to be.
func (p *Partition) ReplicaEnd(b catalog.BrokerID) record.Offset {
	l := p.role.Load()
	if l == nil {
		return record.NoOffset
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.followers.EndOf(b)
}

// Steady says that the leader knows of no change of the in-sync set to ask for, also if a record were appended now.
func (p *Partition) Steady() bool {
	l := p.role.Load()
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.followers.Wants(record.Offset(p.hw.Load()), p.log.Bounds().End+1, p.env.mono(), true)
}

// OnDisk makes d the disk whose space is looked at, with marks at 90 and 40 MiB. Before Run.
func (s *Set) OnDisk(d Disk) {
	s.env.pressure.disk, s.env.pressure.produceMark, s.env.pressure.endMark = d, 90<<20, 40<<20
}

// Squeezed reports whether the set knows that its disk is beyond the first mark, Full that it is beyond the second.
func (s *Set) Squeezed() bool { return s.env.pressure.rollEarly() }
func (s *Set) Full() bool     { return s.env.pressure.refuseAppend(0) }
