package partition

import (
	"context"

	"tidemark/hotlog"
)

// BreakLog does what a failed write or fsync does.
func (p *Partition) BreakLog() { _ = p.appendFailed(hotlog.ErrFailed) }

// Resign does at once what the housekeeping does every second.
func (s *Set) Resign(ctx context.Context) { s.resign(ctx) }

// OnDisk makes d the disk whose space is looked at, with marks at 90 and 40 MiB. Before Run.
func (s *Set) OnDisk(d Disk) {
	s.env.pressure.disk, s.env.pressure.produceMark, s.env.pressure.endMark = d, 90<<20, 40<<20
}

// Squeezed reports whether the set knows that its disk is beyond the first mark.
func (s *Set) Squeezed() bool { return s.env.pressure.rollEarly() }
