package hotlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
	"tidemark/record/producer"
)

// Open recovers the log in o.Dir, which the first write makes if it is absent: ready or nothing. What
// [DataDir.CloseLogs] wrote of the log spares it all reading; after another clean
// stop it reads a few small files; else it checks every batch from the
// recovery point's segment on, cuts what follows the last good one, and makes the
// indexes again. It needs no disk space, unless a directory is there that is empty.
// ctx ends a long scan.
func Open(ctx context.Context, o Options) (*Log, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("hotlog: options: %w", err)
	}
	o = o.withDefaults()
	if l := openKnown(o); l != nil {
		return l, nil
	}
	l := newLog(o)
	err := l.open(ctx)
	if b := l.Bounds(); err == nil && b.Acked < b.End {
		// What a scan found counts only once it is synced, and no append may ever come to do that.
		err = l.sync(b.End, false)
	}
	if err != nil {
		if segs := l.segs.Load(); segs != nil {
			for _, s := range *segs {
				s.retire(l.files)
			}
		}
		return nil, fmt.Errorf("open log %s: %w", o.Dir, err)
	}
	return l, nil
}

func newLog(o Options) *Log {
	l := &Log{
		dir: o.Dir, fs: o.FS, clock: o.Clock, logger: o.Logger, files: o.Files,
		flushTurn: make(chan struct{}, 1), snapshotAt: record.NoOffset,
	}
	l.config.Store(&o.Config)
	l.epochs.Store(&record.EpochHistory{})
	return l
}

func (l *Log) open(ctx context.Context) error {
	if _, err := os.Stat(l.dir); errors.Is(err, fs.ErrNotExist) {
		l.unmade = true
		return l.beginAt(0, record.EpochHistory{}, nil)
	}
	plan, found, err := readReset(l.dir)
	if err != nil {
		// The plan is renamed into place whole, so this is no torn write; what it
		// wanted is unknown, and the log below it may be half removed.
		return err
	}
	if found {
		return l.carryOut(plan)
	}
	r := recovery{log: l, ctx: ctx}
	if err := r.run(); err != nil {
		return err
	}
	if len(*l.segs.Load()) == 0 {
		return l.beginAt(0, record.EpochHistory{}, nil)
	}
	return nil
}

// recovery is one Open's work.
type recovery struct {
	log   *Log
	ctx   context.Context
	files listing
	segs  []*seg
	point recoveryPoint
	// scanFrom is the first segment that is not trusted; len(segs) if all are.
	scanFrom int
}

func (r *recovery) run() (err error) {
	l := r.log
	if r.files, err = list(l.dir); err != nil {
		return err
	}
	r.point, err = readPoint(l.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.logger.Warn("recovery point unreadable: all is scanned", "dir", l.dir, "err", err)
	}
	l.stored = r.point
	for _, base := range r.files.bases {
		s := newSeg(l, base)
		info, err := os.Stat(s.path(segment.LogSuffix))
		if err != nil {
			return err
		}
		s.ext.size = info.Size()
		s.lastWall.Store(info.ModTime().UnixMilli())
		r.segs = append(r.segs, s)
	}
	r.removeLitter()
	if len(r.segs) == 0 {
		l.segs.Store(&r.segs)
		return nil
	}
	r.trust()
	for {
		again, err := r.attempt()
		if err != nil {
			return err
		}
		if !again {
			return r.finish()
		}
	}
}

// removeLitter drops half-written files and indexes without log.
func (r *recovery) removeLitter() {
	names := r.files.temps
	for base, files := range r.files.indexes {
		if !slices.Contains(r.files.bases, base) {
			names = append(names, files...)
		}
	}
	for _, name := range names {
		if err := r.log.fs.Remove(filepath.Join(r.log.dir, name)); err != nil {
			r.log.logger.Warn("litter stays", "dir", r.log.dir, "file", name, "err", err)
		}
	}
}

// trust decides what need not be scanned: everything, if the last segment is
// exactly as the recovery point saw it; else the segments wholly below the point.
func (r *recovery) trust() {
	last := r.segs[len(r.segs)-1]
	if last.base == r.point.base && last.ext.size == r.point.size {
		r.scanFrom = len(r.segs)
		return
	}
	r.scanFrom = 0
	for r.scanFrom+1 < len(r.segs) && r.segs[r.scanFrom+1].base <= r.point.offset {
		r.scanFrom++
	}
}

// attempt recovers with the trust that there is. True: a trusted part is not what
// the recovery point promises, so nothing is trusted and all is done again (I4).
func (r *recovery) attempt() (again bool, err error) {
	l := r.log
	l.aborted = nil
	trusted := r.segs[:r.scanFrom]
	for i, s := range trusted {
		next := r.point.offset
		if i+1 < len(r.segs) {
			next = r.segs[i+1].base
		}
		if err := r.adopt(s, next); err != nil {
			return r.distrust(err)
		}
	}
	end := r.segs[0].base
	if n := len(trusted); n > 0 {
		end = trusted[n-1].ext.next
	}
	history, err := readEpochs(l.dir)
	l.savedTo = storedEpochs{err == nil, history}
	if err != nil && len(trusted) > 0 {
		return r.distrust(err)
	}
	history.TruncateTo(end)
	l.epochs.Store(&history)
	if err := l.replay(trusted, r.files.snapshots, r.segs[0].base, end); err != nil {
		return r.distrust(err)
	}
	if end, err = r.scan(end); err != nil {
		return false, err
	}
	if end < r.point.offset && r.point != noPoint {
		return r.distrust(fmt.Errorf("log ends at %d, recovery point %d", end, r.point.offset))
	}
	return false, nil
}

// distrust makes the next attempt scan everything, once.
func (r *recovery) distrust(why error) (bool, error) {
	if r.point == noPoint && r.scanFrom == 0 {
		return false, why
	}
	r.log.logger.Warn("recovery point not trusted: all is scanned", "dir", r.log.dir, "err", why)
	r.point, r.scanFrom = noPoint, 0
	r.log.recovered.Scanned = 0
	for i, s := range r.segs {
		s.retire(r.log.files)
		fresh := newSeg(r.log, s.base)
		info, err := os.Stat(s.path(segment.LogSuffix))
		if err != nil {
			return false, err
		}
		fresh.ext.size = info.Size()
		fresh.lastWall.Store(s.lastWall.Load())
		r.segs[i] = fresh
	}
	return true, nil
}

// adopt takes over a trusted segment that ends at next. Its own end is looked at,
// not its batches.
func (r *recovery) adopt(s *seg, next record.Offset) error {
	s.ext.next, s.ext.lastPos, s.ext.lastBase = next, 0, s.base
	s.firstWall.Store(s.lastWall.Load())
	s.stale = true
	if s.ext.size == 0 {
		if next != s.base {
			return fmt.Errorf("segment %d is empty, next is %d", s.base, next)
		}
		s.firstWall.Store(0)
		return nil
	}
	f, err := s.fs.Open(s.path(segment.LogSuffix), os.O_RDONLY)
	if err != nil {
		return err
	}
	x, err := s.readIndexFiles(s.ext)
	if err == nil {
		s.onDisk.offsets, s.onDisk.times = len(x.Offsets), len(x.Times)
		s.stale = false
	} else if x, _, err = buildIndex(f, s.base, s.ext.size); err != nil {
		return errors.Join(err, f.Close())
	}
	s.index = x
	ext, err := tailOf(f, x, s.ext)
	if err == nil && ext.next != next {
		err = fmt.Errorf("segment %d ends at %d, the log goes on at %d", s.base, ext.next, next)
	}
	s.ext = ext
	return errors.Join(err, f.Close(), r.adoptTxns(s))
}

func peakOf(x *segment.Index) segment.Peak {
	peak := segment.NoPeak(x.Base)
	if n := len(x.Times); n > 0 {
		peak = segment.Peak{Timestamp: x.Times[n-1].Timestamp, At: x.Base + record.Offset(x.Times[n-1].Rel)}
	}
	return peak
}

// tailOf completes what the index says of a segment's end by walking the batches
// after its last entries.
func tailOf(f disk.File, x *segment.Index, ext extent) (extent, error) {
	ext.peak, ext.next = peakOf(x), x.Base
	var w segment.Walker
	w.Reset(f.OS(), min(x.FloorPos(ext.size), x.Floor(ext.peak.At)), ext.size)
	for w.Next() {
		h := w.Header()
		ext.peak = ext.peak.With(h.MaxTimestamp, h.LastOffset())
		ext.next, ext.lastPos, ext.lastBase = h.NextOffset(), w.Pos(), h.BaseOffset
	}
	return ext, w.Err()
}

func (r *recovery) adoptTxns(s *seg) error {
	b, err := os.ReadFile(s.path(segment.TxnSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	before := len(r.log.aborted)
	r.log.aborted, err = segment.DecodeTxns(r.log.aborted, b, s.base, s.ext.next)
	s.onDisk.txns = len(r.log.aborted) - before
	return err
}

// replay brings the producer state to end: the newest snapshot in [start, end], and
// the headers of the batches of segs after that.
func (l *Log) replay(segs []*seg, snapshots []record.Offset, start, end record.Offset) error {
	from, maxProducers := start, l.config.Load().MaxProducers
	l.state = producer.New(start, maxProducers)
	for _, at := range slices.Backward(snapshots) {
		if at > end || at < start {
			continue
		}
		state, err := l.loadSnapshot(segs, at, maxProducers)
		if err != nil {
			l.logger.Warn("producer state unreadable: an older one is used", "dir", l.dir, "offset", at, "err", err)
			continue
		}
		l.state, from = state, at
		break
	}
	for _, s := range segs {
		if err := l.replaySegment(s, from, end); err != nil {
			return err
		}
	}
	l.settleUndecided()
	return nil
}

// loadSnapshot reads a producer state: from memory if no flush has written it yet.
func (l *Log) loadSnapshot(segs []*seg, at record.Offset, maxProducers int) (*producer.State, error) {
	for _, s := range segs {
		if s.base == at && s.snapshot != nil {
			return producer.Decode(s.snapshot, maxProducers)
		}
	}
	return readSnapshot(l.dir, at, maxProducers)
}

// settleUndecided sets FirstUndecided's fast path after a load.
func (l *Log) settleUndecided() {
	l.undecided.Store(0)
	l.countUndecidedLocked(false)
}

// replaySegment applies the batches of [from, end) that lie in s, reading headers
// and markers only.
func (l *Log) replaySegment(s *seg, from, end record.Offset) error {
	if s.ext.next <= from || s.base >= end || s.ext.size == 0 {
		return nil
	}
	h, err := s.acquire(l.files)
	if err != nil {
		return err
	}
	defer h.release()
	pos := int64(0)
	if err := s.search(h, func(x *segment.Index) { pos = x.Floor(from) }); err != nil {
		return err
	}
	var w segment.Walker
	w.Reset(h.file.OS(), pos, s.ext.size)
	for w.Next() && w.Header().BaseOffset < end {
		hd := w.Header()
		if hd.NextOffset() <= from {
			continue
		}
		var batch []byte
		if hd.IsControl() {
			batch = make([]byte, hd.Size())
			if _, err := h.file.OS().ReadAt(batch, w.Pos()); err != nil {
				return err
			}
		}
		l.learnLocked(hd, batch, s.lastWall.Load())
	}
	return w.Err()
}
