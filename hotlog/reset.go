package hotlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
	"tidemark/record/producer"
)

// Reset drops the whole log and begins an empty one at start, with the tier's
// epochs and producer state there (R11, R18, H23); a nil state is an empty one. The
// state may hold transactions that are open at start: their markers follow from the
// leader; a caller that becomes the leader ends them first (producer.EndOpen). The plan is on disk before anything is removed, so that a crash ends in the old log or
// the new one. Errors: ErrDiskFull (nothing changed), ErrFailed, ErrClosed,
// ErrBadAppend.
func (l *Log) Reset(start record.Offset, epochs record.EpochHistory, state *producer.State) error {
	if state == nil {
		state = producer.New(start, l.config.Load().MaxProducers)
	}
	if start < 0 || state.End() > start {
		return fmt.Errorf("%w: %s: reset to %d with a state at %d", ErrBadAppend, l.dir, start, state.End())
	}
	l.flushTurn <- struct{}{}
	defer func() { <-l.flushTurn }()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if err := l.makeLocked(); err != nil {
		return err
	}
	state = state.Clone()
	state.SkipTo(start)
	epochs.TruncateTo(start)
	plan := resetPlan{start: start, epochs: epochs, state: state.AppendTo(nil)}
	if err := disk.WriteSealed(l.fs, filepath.Join(l.dir, resetFile), resetKind, plan.encode()); err != nil {
		return l.retriable("write the reset plan", err)
	}
	if err := l.carryOut(plan); err != nil {
		return l.fail("reset", err)
	}
	return nil
}

// carryOut does what a stored plan says; it may be done again from any point.
func (l *Log) carryOut(plan resetPlan) error {
	if segs := l.segs.Load(); segs != nil {
		for _, s := range *segs {
			s.retire(l.files)
		}
	}
	if err := l.removeAll(); err != nil {
		return err
	}
	if err := l.beginAt(plan.start, plan.epochs, plan.state); err != nil {
		return err
	}
	if err := l.writeSnapshot(plan.start, plan.state); err != nil {
		return err
	}
	l.active.snapshot = nil
	if err := l.saveEpochs(plan.epochs); err != nil {
		return err
	}
	if err := l.storePoint(recoveryPoint{offset: plan.start, base: plan.start}); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	if err := l.fs.Remove(filepath.Join(l.dir, resetFile)); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil || !l.newDir {
		return err
	}
	l.newDir = false
	return l.fs.SyncDir(filepath.Dir(l.dir))
}

// removeAll unlinks every file of the log but the plan.
func (l *Log) removeAll() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == resetFile || e.IsDir() {
			continue
		}
		err = errors.Join(err, l.fs.Remove(filepath.Join(l.dir, e.Name())))
	}
	return err
}

// beginAt makes the empty log at start in a directory without segments, or in none. Nothing
// is synced yet.
func (l *Log) beginAt(start record.Offset, epochs record.EpochHistory, encoded []byte) error {
	maxProducers := l.config.Load().MaxProducers
	state := producer.New(start, maxProducers)
	if encoded != nil {
		var err error
		if state, err = producer.Decode(encoded, maxProducers); err != nil {
			return err
		}
	}
	s := newSeg(l, start)
	if l.unmade {
		s.pinned = true
	} else if err := s.openActive(os.O_CREATE | os.O_TRUNC); err != nil {
		return fmt.Errorf("create %s: %w", segment.Name(start, segment.LogSuffix), err)
	}
	l.state = state
	l.epochs.Store(&epochs)
	l.stored, l.savedTo, l.snapshotAt = noPoint, storedEpochs{}, record.NoOffset
	l.txnMu.Lock()
	l.aborted = nil
	l.txnMu.Unlock()
	l.undecided.Store(0)
	l.countUndecidedLocked(false)
	l.waitingSince.Store(0)
	l.unflushed = 0
	l.newNames = !l.unmade
	// A reader of the old log finds its segments gone, which is ErrBelowLocal; the
	// new start is there before the new end.
	l.start.Store(int64(start))
	l.publishLocked([]*seg{s})
	l.end.Store(int64(start))
	l.flushed.Store(int64(start))
	return nil
}
