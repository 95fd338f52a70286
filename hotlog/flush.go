package hotlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
	"tidemark/record/producer"
)

// Flush syncs all that was appended before the call, and what a start needs to
// trust it, and stores and returns the recovery point. Errors: ErrFailed (a failed
// fsync fails the log), ErrDiskFull (the data is synced, the point was not
// stored), ErrClosed.
func (l *Log) Flush() (record.Offset, error) {
	l.mu.Lock()
	err := l.usableLocked()
	l.mu.Unlock()
	if err == nil {
		err = l.sync(record.Offset(l.end.Load()), true)
	}
	return record.Offset(l.flushed.Load()), err
}

// sync makes everything below target durable. Callers queue for the turn, and one
// whose bytes were covered by the one before returns at once: a group fsync.
func (l *Log) sync(target record.Offset, store bool) error {
	l.flushTurn <- struct{}{}
	defer func() { <-l.flushTurn }()
	if err := l.Failed(); err != nil {
		return err
	}
	if l.abandoned.Load() {
		return l.closedError()
	}
	if !store && record.Offset(l.flushed.Load()) >= target {
		return nil
	}
	return l.syncHeld(store)
}

// wakeLocked starts a background flush unless one is about to begin.
func (l *Log) wakeLocked() {
	if l.waking {
		return
	}
	l.waking = true
	l.work.Go(func() {
		l.files.beginSync()
		defer l.files.doneSync()
		// fail has logged what cannot be tried again; a full disk is tried again by
		// the next flush, an abandoned log never.
		if err := l.sync(0, true); err != nil && !errors.Is(err, ErrFailed) && !l.abandoned.Load() {
			l.logger.Warn("background flush", "dir", l.dir, "err", err)
		}
	})
}

// flushPlan is what one flush has to make durable.
type flushPlan struct {
	end       record.Offset
	active    *seg
	size      int64
	dirty     []*seg // data to sync, oldest first
	snapshots []*seg // producer states to write
	names     bool
	dir       bool // the directory's own name, too
	txns      bool // aborted transactions were learned
	unmade    bool // there is nothing, and no directory
	epochs    record.EpochHistory
}

func (l *Log) planFlush() flushPlan {
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := *l.segs.Load()
	p := flushPlan{
		end: record.Offset(l.end.Load()), active: l.active, size: l.active.extent().size,
		names: l.newNames, dir: l.newDir, txns: l.newAborted, unmade: l.unmade, epochs: *l.epochs.Load(),
	}
	for _, s := range segs {
		if s.dirty {
			p.dirty = append(p.dirty, s)
			s.dirty = false
		}
		if s.snapshot != nil {
			p.snapshots = append(p.snapshots, s)
		}
	}
	l.newNames, l.newDir, l.newAborted, l.waking, l.unflushed = false, false, false, false, 0
	l.waitingSince.Store(0)
	return p
}

// syncHeld runs one flush under the flush turn. The order is the promise: data,
// aborted transactions, names; only then is it called flushed; indexes, epochs and
// producer states before the recovery point that relies on them.
func (l *Log) syncHeld(store bool) error {
	p := l.planFlush()
	if err := l.syncPlan(p); err != nil || !store {
		return err
	}
	return l.storeHeld(p)
}

// syncPlan makes the plan's data durable and calls it flushed.
func (l *Log) syncPlan(p flushPlan) error {
	for i, s := range p.dirty {
		if err := l.syncData(s); err != nil {
			l.putBack(p, p.dirty[i:])
			return err
		}
		l.unpinSynced(s)
	}
	if p.txns {
		if err := l.writeTxns(p.end); err != nil {
			l.putBack(p, nil)
			return l.retriable("write aborted transactions", err)
		}
	}
	if err := l.syncNames(p); err != nil {
		l.putBack(p, nil)
		return l.notOpened("sync directory", err)
	}
	l.flushed.Store(max(l.flushed.Load(), int64(p.end)))
	return nil
}

// putBack leaves to the next flush what this one has not come to.
func (l *Log) putBack(p flushPlan, dirty []*seg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range dirty {
		s.dirty = true
	}
	l.newNames, l.newDir, l.newAborted = l.newNames || p.names, l.newDir || p.dir, l.newAborted || p.txns
}

// syncNames makes new files, and a new log's own directory, durable.
func (l *Log) syncNames(p flushPlan) error {
	if p.names || p.txns {
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	if p.dir {
		return l.fs.SyncDir(filepath.Dir(l.dir))
	}
	return nil
}

func (l *Log) syncData(s *seg) error {
	if l.abandoned.Load() {
		return l.closedError()
	}
	h, err := s.acquire(l.files)
	if err != nil {
		return l.notOpened("open to sync", err)
	}
	defer h.release()
	if err := h.file.Sync(); err != nil {
		return l.fail("sync data", err)
	}
	return nil
}

// unpinSynced gives the file of a sealed segment to FileLimit once nothing in it waits for a sync: of a file that is
// closed before, the kernel may forget that a write failed (H28).
func (l *Log) unpinSynced(s *seg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != l.active && !s.dirty {
		s.unpin(l.files)
	}
}

// retriable passes on a full disk and a want of descriptors, and makes anything else the log's failure.
func (l *Log) retriable(doing string, err error) error {
	if disk.IsFull(err) && !l.abandoned.Load() {
		return fmt.Errorf("%w: %s: %s: %w", ErrDiskFull, l.dir, doing, err)
	}
	return l.notOpened(doing, err)
}

// notOpened passes on a want of descriptors, for which no fsync is refused, and makes anything else the log's failure.
func (l *Log) notOpened(doing string, err error) error {
	if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && !l.abandoned.Load() {
		return fmt.Errorf("%w: %s: %s: %w", ErrNoFiles, l.dir, doing, err)
	}
	return l.fail(doing, err)
}

// storeHeld writes what lets the next start trust everything below p.end.
func (l *Log) storeHeld(p flushPlan) error {
	point, news := l.pointOf(p)
	if !news {
		return nil
	}
	if err := l.storeState(p); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.notOpened("sync directory", err)
	}
	// The point's own name is not synced: after a power cut an older point only
	// makes the scan longer.
	if err := l.storePoint(point); err != nil {
		return l.retriable("write recovery point", err)
	}
	return nil
}

// pointOf is the recovery point that the plan reaches, and whether it, or what belongs to it, is not stored yet.
func (l *Log) pointOf(p flushPlan) (recoveryPoint, bool) {
	if p.unmade {
		return l.stored, false
	}
	point := recoveryPoint{offset: p.end, base: p.active.base, size: p.size, firstWall: p.active.firstWall.Load()}
	return point, l.stored != point || !l.savedTo.is(p.epochs)
}

// storeState writes what a recovery point relies on.
func (l *Log) storeState(p flushPlan) error {
	if err := l.writeIndexes(); err != nil {
		return l.retriable("write index", err)
	}
	if err := l.writeSnapshots(p.snapshots); err != nil {
		return l.retriable("write producer state", err)
	}
	if err := l.saveEpochs(p.epochs); err != nil {
		return l.retriable("write epochs", err)
	}
	return nil
}

func (l *Log) storePoint(p recoveryPoint) error {
	if err := disk.Replace(l.fs, filepath.Join(l.dir, pointFile), disk.Seal(pointKind, p.encode())); err != nil {
		return err
	}
	l.stored = p
	return nil
}

func (l *Log) saveEpochs(history record.EpochHistory) error {
	if l.savedTo.is(history) {
		return nil
	}
	payload := disk.Seal(epochsKind, history.AppendTo(nil))
	if err := disk.Replace(l.fs, filepath.Join(l.dir, epochsFile), payload); err != nil {
		return err
	}
	l.savedTo = storedEpochs{true, history}
	return nil
}

func (l *Log) writeSnapshots(segs []*seg) error {
	for _, s := range segs {
		if err := l.writeSnapshot(s.base, s.snapshot); err != nil {
			return err
		}
		l.mu.Lock()
		s.snapshot = nil
		l.mu.Unlock()
	}
	return nil
}

func (l *Log) writeSnapshot(at record.Offset, state []byte) error {
	name := filepath.Join(l.dir, segment.Name(at, segment.SnapshotSuffix))
	return disk.Replace(l.fs, name, disk.Seal(snapshotKind, state))
}

// writeTxns appends the aborted transactions below end that the index files do not
// have yet. Unlike the other indexes a lost entry cannot be noticed later, so they
// are synced before anything calls the data flushed.
func (l *Log) writeTxns(end record.Offset) error {
	l.txnMu.Lock()
	list := slices.Clone(l.aborted)
	l.txnMu.Unlock()
	for _, s := range *l.segs.Load() {
		var mine []producer.Aborted
		next := s.extent().next
		for _, a := range list {
			if a.Last >= s.base && a.Last < min(next, end) {
				mine = append(mine, a)
			}
		}
		if len(mine) <= s.onDisk.txns {
			continue
		}
		bytes := segment.AppendTxns(nil, mine[s.onDisk.txns:])
		if err := l.put(s, segment.TxnSuffix, bytes, s.onDisk.txns*segment.TxnEntrySize, true); err != nil {
			return err
		}
		s.onDisk.txns = len(mine)
	}
	return nil
}

// writeIndexes brings the index files up to what memory has. A sealed segment's
// are synced, and memory forgets them: readers load them again when they search.
func (l *Log) writeIndexes() error {
	for _, s := range *l.segs.Load() {
		if s.settled {
			continue
		}
		if err := l.writeIndex(s); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) writeIndex(s *seg) error {
	if stored, err := l.indexIsStored(s); stored || err != nil {
		return err
	}
	s.extentMu.RLock()
	sealed := s.sealed.Load()
	x := *s.index // entries are only ever appended: the copy is a snapshot
	s.extentMu.RUnlock()
	if s.stale {
		if err := l.cutStale(s); err != nil {
			return err
		}
	}
	if sealed || len(x.Offsets) > s.onDisk.offsets {
		offsets := segment.AppendOffsets(nil, x.Offsets[s.onDisk.offsets:])
		if err := l.put(s, segment.IndexSuffix, offsets, s.onDisk.offsets*segment.OffsetEntrySize, sealed); err != nil {
			return err
		}
		s.onDisk.offsets = len(x.Offsets)
	}
	if sealed || len(x.Times) > s.onDisk.times {
		times := segment.AppendTimes(nil, x.Times[s.onDisk.times:])
		if err := l.put(s, segment.TimeSuffix, times, s.onDisk.times*segment.TimeEntrySize, sealed); err != nil {
			return err
		}
		s.onDisk.times = len(x.Times)
	}
	if sealed {
		s.settled = true
		s.extentMu.Lock()
		s.index = nil
		s.extentMu.Unlock()
	}
	return nil
}

// indexIsStored says if the segment has not been used since the clean stop, whose index files have all of it. If they
// do not it is loaded, to be written.
func (l *Log) indexIsStored(s *seg) (bool, error) {
	l.mu.Lock()
	unused, stale := s.index == nil, s.stale
	l.mu.Unlock()
	if !unused || !stale {
		return unused, nil
	}
	h, err := s.acquire(l.files)
	if err != nil {
		return false, err
	}
	defer h.release()
	return false, l.wake(s, h)
}

// cutStale takes what an earlier life of the segment, since truncated or scanned
// anew, left in its index files beyond what is known to be right.
func (l *Log) cutStale(s *seg) error {
	for _, f := range []struct {
		suffix string
		keep   int
	}{
		{segment.IndexSuffix, s.onDisk.offsets * segment.OffsetEntrySize},
		{segment.TimeSuffix, s.onDisk.times * segment.TimeEntrySize},
		{segment.TxnSuffix, s.onDisk.txns * segment.TxnEntrySize},
	} {
		if info, err := os.Stat(s.path(f.suffix)); err != nil || info.Size() <= int64(f.keep) {
			continue
		}
		if err := l.put(s, f.suffix, nil, f.keep, true); err != nil {
			return err
		}
	}
	s.stale = false
	return nil
}

// put writes at the end of an index file, which is made if absent and cut to at
// first, so that what an earlier life left beyond it is gone.
func (l *Log) put(s *seg, suffix string, bytes []byte, at int, sync bool) error {
	f, err := s.fs.Open(s.path(suffix), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	err = f.Truncate(int64(at))
	if err == nil && len(bytes) > 0 {
		_, err = f.WriteAt(bytes, int64(at))
	}
	if err == nil && sync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
