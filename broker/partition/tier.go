package partition

import (
	"tidemark/record"
)

// TierEnd is where the tier ended when it was last seen.
func (p *Partition) TierEnd() record.Offset { return record.Offset(p.tiered.Load()) }

// cleanTo is up to where compaction has been, as a leader knows it.
type cleanTo struct {
	epoch record.Epoch
	to    record.Offset
}

// SetClean notes up to where the object tier is clean. Consumers are sent there for what lies below,
// whatever the local log still has: who had read a record from the local log could otherwise go on in the
// tier above a tombstone that has gone, and keep the record for ever.
func (p *Partition) SetClean(to record.Offset) {
	p.clean.Store(&cleanTo{epoch: p.LeaderEpoch(), to: to})
}

// coldEnd is where reads from the object tier end, given where the local log begins. Where a topic compacts
// and this leadership does not know yet up to where it has been compacted, all that is tiered counts as clean.
func (p *Partition) coldEnd(localStart record.Offset) record.Offset {
	cfg := p.cfg.Load()
	if !cfg.CleanupCompact || !cfg.RemoteStorageEnable {
		return localStart
	}
	end := p.TierEnd()
	if c := p.clean.Load(); c != nil && c.epoch == p.LeaderEpoch() {
		end = min(end, c.to)
	}
	return max(localStart, end)
}
