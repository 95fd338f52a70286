package partition

import (
	"context"

	"tidemark/hotlog"
)

// BreakLog does what a failed write or fsync does.
func (p *Partition) BreakLog() { _ = p.appendFailed(hotlog.ErrFailed) }

// Resign does at once what the housekeeping does every second.
func (s *Set) Resign(ctx context.Context) { s.resign(ctx) }
