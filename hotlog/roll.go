package hotlog

import (
	"errors"
	"fmt"
	"os"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
)

// Roll seals the active segment and begins a new one. An empty one is never rolled.
// The sealed segment is synced in the background. When to roll by time or under
// pressure is the caller's decision: see SegmentInfo.FirstAppendMono (R13).
// Errors: ErrDiskFull, ErrFailed, ErrClosed.
func (l *Log) Roll(reason RollReason) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if l.active.extent().size == 0 {
		return nil
	}
	if err := l.readyLocked(); err != nil {
		return err
	}
	return l.rollLocked(reason)
}

// rollLocked does no fsync: what is acknowledged before the next flush depends on
// the new name no more than on unsynced bytes, and the flush syncs the directory
// before it says anything (I1).
func (l *Log) rollLocked(reason RollReason) error {
	end := record.Offset(l.end.Load())
	fresh, err := l.createLocked(end)
	if err != nil {
		return err
	}
	fresh.snapshot = l.state.AppendTo(nil)
	old := l.active
	old.extentMu.Lock()
	old.index.Finish(old.ext.peak)
	old.extentMu.Unlock()
	old.sealed.Store(true)
	l.publishLocked(append(append([]*seg(nil), *l.segs.Load()...), fresh))
	if !old.dirty { // else the flush that has synced it does
		old.unpin(l.files)
	}
	l.logger.Debug("segment rolled", "dir", l.dir, "base", end, "reason", string(reason))
	l.wakeLocked()
	return nil
}

// createLocked makes the empty segment at base. A file of that name can only be
// what a crash left after the log's end.
func (l *Log) createLocked(base record.Offset) (*seg, error) {
	s := newSeg(l, base)
	if err := s.openActive(os.O_CREATE | os.O_TRUNC); err != nil {
		if disk.IsFull(err) {
			return nil, fmt.Errorf("%w: %s: %w", ErrDiskFull, l.dir, err)
		}
		return nil, l.cannotOpen("create segment", err)
	}
	l.newNames = true
	return s, nil
}

func (l *Log) publishLocked(segs []*seg) {
	l.segs.Store(&segs)
	l.active = segs[len(segs)-1]
}

// rebaseLocked makes an empty log begin at a lower offset.
func (l *Log) rebaseLocked(base record.Offset) error {
	if err := l.makeLocked(); err != nil {
		return err
	}
	fresh, err := l.createLocked(base)
	if err != nil {
		return err
	}
	old := l.active
	if err := l.writeSnapshot(base, l.state.AppendTo(nil)); err != nil {
		return l.retriable("write producer state", err)
	}
	l.end.Store(int64(base))
	l.start.Store(int64(base))
	l.flushed.Store(min(l.flushed.Load(), int64(base)))
	l.publishLocked([]*seg{fresh})
	if err := l.unlinkHeld(old); err != nil {
		return l.fail("remove an empty segment", err)
	}
	return nil
}

// Free removes the sealed segments that lie wholly below an offset, oldest first,
// and returns their bytes. localStart moves before any file goes, so a reader sees
// ErrBelowLocal, never a missing file (B6); sections that are being read keep
// their bytes. What may be freed is R5's and the caller's decision.
func (l *Log) Free(below record.Offset) (int64, error) {
	l.flushTurn <- struct{}{}
	defer func() { <-l.flushTurn }()
	l.mu.Lock()
	if err := l.usableLocked(); err != nil {
		l.mu.Unlock()
		return 0, err
	}
	segs := *l.segs.Load()
	n := 0
	for n < len(segs)-1 && segs[n+1].base <= below {
		n++
	}
	freed, kept := segs[:n], segs[n:]
	if n > 0 {
		l.start.Store(int64(kept[0].base))
		l.publishLocked(kept[:len(kept):len(kept)])
	}
	l.mu.Unlock()
	if n == 0 {
		return 0, nil
	}
	l.txnMu.Lock()
	l.aborted.TrimBelow(kept[0].base)
	l.txnMu.Unlock()
	return l.removeHeld(freed)
}

func (l *Log) removeHeld(freed []*seg) (bytes int64, err error) {
	for _, s := range freed {
		bytes += s.extent().size
		err = errors.Join(err, l.unlinkHeld(s))
	}
	return bytes, err
}

// unlinkHeld removes a segment's files. What can be made again from the log goes before it, what cannot after it, which is
// its aborted transactions: they may have begun in segments that are gone. What stands without a log is litter.
func (l *Log) unlinkHeld(s *seg) error {
	s.retire(l.files)
	var err error
	for _, suffix := range []string{segment.SnapshotSuffix, segment.TimeSuffix, segment.IndexSuffix, segment.LogSuffix} {
		err = errors.Join(err, disk.RemoveIfThere(l.fs, s.path(suffix)))
	}
	if err != nil {
		return err
	}
	return disk.RemoveIfThere(l.fs, s.path(segment.TxnSuffix))
}
