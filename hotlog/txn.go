package hotlog

import (
	"slices"

	"tidemark/record"
	"tidemark/record/producer"
)

// FirstUndecided is where the last stable offset stands if hw is beyond it: the
// first offset of the oldest transaction that is open, or whose marker is not
// below hw (KIP-98). hw must not fall while the log has the same leader; ended
// transactions below it are forgotten. Without transactions it takes no lock.
func (l *Log) FirstUndecided(hw record.Offset) (record.Offset, bool) {
	if l.undecided.Load() == 0 {
		return record.NoOffset, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Settle(hw)
	first, ok := l.state.FirstUnstable(hw)
	if !ok {
		l.undecided.Store(0)
	}
	return first, ok
}

// countUndecidedLocked keeps the fast path of FirstUndecided honest: any open or
// just ended transaction makes it look.
func (l *Log) countUndecidedLocked(ended bool) {
	if _, open := l.state.FirstOpen(); open || ended {
		l.undecided.Store(1)
	}
}

// Aborted lists the aborted transactions that may have records in [from, to), as a
// read_committed fetch names them, wherever their markers are.
func (l *Log) Aborted(from, to record.Offset) []producer.Aborted {
	l.txnMu.Lock()
	defer l.txnMu.Unlock()
	return slices.Collect(l.aborted.Overlapping(from, to))
}

// Producers is a copy of the producer state at the log's end, End() of which names
// that offset. It waits for an append in progress.
func (l *Log) Producers() *producer.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Clone()
}

// ExpireProducers forgets the producers that were idle for ProducerExpiry (F6) and
// returns how many. The caller's timer decides when.
func (l *Log) ExpireProducers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Expire(l.clock.steady(), l.config.Load().ProducerExpiry.Milliseconds())
}
