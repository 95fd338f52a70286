package partition

import "tidemark/hotlog"

// BreakLog does what a failed write or fsync does.
func (p *Partition) BreakLog() { _ = p.appendFailed(hotlog.ErrFailed) }
