package hotlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
)

// TruncateTo makes to the log's end; a batch that crosses it goes too. Producer
// state, transactions and epochs go back with the log (H11). An end at or above
// the log's takes only epochs back in which nothing was written. Waits for acknowledgement must have been failed
// before (R17). Errors: ErrBelowLocal (to is below localStart: Reset is wanted),
// ErrDiskFull (nothing changed), ErrFailed, ErrClosed.
func (l *Log) TruncateTo(to record.Offset) error {
	l.flushTurn <- struct{}{}
	defer func() { <-l.flushTurn }()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if end := record.Offset(l.end.Load()); to >= end {
		history := l.Epochs()
		history.TruncateTo(end)
		l.epochs.Store(&history)
		return nil
	}
	if to < record.Offset(l.start.Load()) {
		return fmt.Errorf("%w: %s: truncate to %d, local start %d", ErrBelowLocal, l.dir, to, l.start.Load())
	}
	if err := l.readyLocked(); err != nil {
		return err
	}
	segs := *l.segs.Load()
	s := segs[find(segs, to)]
	cut, err := l.cutPoint(s, to)
	if err != nil {
		return l.fail("find where to truncate", err)
	}
	if err := l.lowerPoint(s, cut); err != nil {
		return err
	}
	if err := l.truncateHeld(segs, s, cut); err != nil {
		return l.fail("truncate", err)
	}
	return nil
}

// cutPoint is the extent that the segment will have: up to the batch that holds
// to.
func (l *Log) cutPoint(s *seg, to record.Offset) (extent, error) {
	h, err := s.acquire(l.files)
	if err != nil {
		return extent{}, err
	}
	defer h.release()
	ext := s.extent()
	var x segment.Index
	err = s.search(h, func(have *segment.Index) { x = *have })
	if err != nil {
		return extent{}, err
	}
	var w segment.Walker
	w.Reset(h.file.OS(), x.Floor(to), ext.size)
	for w.Next() && w.Header().NextOffset() <= to {
	}
	if w.Err() != nil {
		return extent{}, w.Err()
	}
	end, pos := w.Header().BaseOffset, w.Pos()
	x.TruncateTo(end, pos)
	cut, err := tailOf(h.file, &x, extent{size: pos, lastBase: s.base})
	if err == nil && cut.next != end {
		err = fmt.Errorf("%w: batches before %d end at %d", record.ErrCorrupt, end, cut.next)
	}
	return cut, err
}

// lowerPoint stores a recovery point that is not beyond the new end, durably,
// before a byte is cut: bytes that are appended there later were never synced.
func (l *Log) lowerPoint(s *seg, cut extent) error {
	if l.stored == noPoint || l.stored.offset <= cut.next {
		return nil
	}
	err := l.storePoint(recoveryPoint{offset: cut.next, base: s.base, size: cut.size, firstWall: s.firstWall.Load()})
	if disk.IsFull(err) {
		// No point at all is safe, too, and needs no space.
		if err = disk.RemoveIfThere(l.fs, filepath.Join(l.dir, pointFile)); err == nil {
			l.stored = noPoint
		}
	}
	if err == nil {
		err = l.fs.SyncDir(l.dir)
	}
	if err != nil {
		return l.fail("lower the recovery point", err)
	}
	return nil
}

func (l *Log) truncateHeld(segs []*seg, s *seg, cut extent) error {
	end := cut.next
	l.snapshotAt = record.NoOffset
	l.end.Store(int64(end))
	l.flushed.Store(min(l.flushed.Load(), int64(end)))
	i := slices.Index(segs, s)
	if err := l.reopenHeld(s, cut); err != nil {
		return err
	}
	l.publishLocked(slices.Clone(segs[:i+1]))
	// The cut is made durable at once. Else a power cut after the next appends could
	// leave their front and, behind it, the lost lineage's batches at just the
	// offsets that follow.
	if err := l.removeLaterHeld(segs[i+1:]); err != nil {
		return err
	}
	if err := s.handle.file.Truncate(cut.size); err != nil {
		return err
	}
	if err := s.handle.file.Sync(); err != nil {
		return err
	}
	history := l.Epochs()
	history.TruncateTo(end)
	l.epochs.Store(&history)
	return l.takeBackHeld(segs[:i+1], end)
}

// removeLaterHeld removes segments from the end of the log, newest first, so that a
// crash in between leaves no hole.
func (l *Log) removeLaterHeld(segs []*seg) error {
	for _, s := range slices.Backward(segs) {
		if err := l.unlinkHeld(s); err != nil {
			return err
		}
	}
	if len(segs) == 0 {
		return nil
	}
	return l.fs.SyncDir(l.dir)
}

// reopenHeld makes s the segment that is appended to, with the extent cut.
func (l *Log) reopenHeld(s *seg, cut extent) error {
	h, err := s.acquire(l.files)
	if err != nil {
		return err
	}
	var x segment.Index
	err = s.search(h, func(have *segment.Index) { x = *have })
	h.release()
	if err != nil {
		return err
	}
	x.TruncateTo(cut.next, cut.size)
	if s.sealed.Load() {
		l.files.forget(s)
		if err := s.openActive(0); err != nil {
			return err
		}
	}
	s.extentMu.Lock()
	s.ext, s.index = cut, &x
	s.sealed.Store(false)
	s.extentMu.Unlock()
	s.dirty = s.dirty || cut.size > 0
	s.settled, s.stale = false, true
	// The next flush writes both index files from their beginnings: what they hold
	// of the lost part must not stay behind the entries.
	s.onDisk.offsets, s.onDisk.times = 0, 0
	if cut.size == 0 {
		s.firstWall.Store(0)
	}
	return nil
}

// takeBackHeld makes transactions and producers those of the log that ends at end.
func (l *Log) takeBackHeld(segs []*seg, end record.Offset) error {
	l.txnMu.Lock()
	l.aborted.TruncateTo(end)
	kept := 0
	s := segs[len(segs)-1]
	for _, a := range l.aborted {
		if a.Last >= s.base {
			kept++
		}
	}
	l.txnMu.Unlock()
	if s.onDisk.txns > kept {
		// Cut now: a start that trusts the new recovery point reads this file.
		if err := l.put(s, segment.TxnSuffix, nil, kept*segment.TxnEntrySize, true); err != nil {
			return err
		}
		s.onDisk.txns = kept
	}
	files, err := list(l.dir)
	if err != nil {
		return err
	}
	var below []record.Offset
	for _, at := range files.snapshots {
		if at <= end {
			below = append(below, at)
			continue
		}
		name := filepath.Join(l.dir, segment.Name(at, segment.SnapshotSuffix))
		err = errors.Join(err, disk.RemoveIfThere(l.fs, name))
	}
	for _, s := range segs {
		if s.snapshot != nil && !slices.Contains(below, s.base) {
			below = append(below, s.base)
		}
	}
	slices.Sort(below)
	if err != nil {
		return err
	}
	return l.replay(segs, below, record.Offset(l.start.Load()), end)
}
