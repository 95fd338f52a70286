package hotlog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
)

// scan checks every batch of the segments that are not trusted and learns from
// them. At the first fault the log ends: the rest of that segment is cut, later
// ones go.
func (r *recovery) scan(end record.Offset) (record.Offset, error) {
	for i := r.scanFrom; i < len(r.segs); i++ {
		s := r.segs[i]
		if s.base != end {
			return end, r.drop(i, "a segment that does not continue the log")
		}
		out, err := r.scanSegment(s)
		if err != nil {
			return end, err
		}
		end = out.Next
		if out.Stop == segment.StopNone {
			continue
		}
		if err := r.cut(s, out); err != nil {
			return end, err
		}
		return end, r.drop(i+1, string(out.Stop))
	}
	return end, nil
}

func (r *recovery) scanSegment(s *seg) (segment.Scanned, error) {
	l := r.log
	f, err := s.fs.Open(s.path(segment.LogSuffix), os.O_RDONLY)
	if err != nil {
		return segment.Scanned{}, err
	}
	defer f.Close()
	x := &segment.Index{Base: s.base}
	ext := extent{next: s.base, peak: segment.NoPeak(s.base), lastBase: s.base}
	interval := l.config.Load().IndexIntervalBytes
	out, err := segment.Scan(f.OS(), s.base, s.ext.size, func(h record.Header, pos int64, batch []byte) error {
		ext.peak = ext.peak.With(h.MaxTimestamp, h.LastOffset())
		x.Add(h, pos, interval, ext.peak)
		ext.lastPos, ext.lastBase = pos, h.BaseOffset
		if h.NextOffset() > l.state.End() {
			l.learnLocked(h, batch, s.lastWall.Load())
		} else {
			l.assignLocked(h.LeaderEpoch, h.BaseOffset)
		}
		return r.ctx.Err()
	})
	if err != nil {
		return out, err
	}
	l.recovered.Scanned += out.Good
	ext.size, ext.next = out.Good, out.Next
	cut := s.ext.size - out.Good
	s.ext, s.index = ext, x
	if cut > 0 {
		l.recovered.Cut += cut
		l.recovered.Why = string(out.Stop)
	}
	s.dirty = out.Good > 0
	if out.Good > 0 {
		s.firstWall.Store(s.lastWall.Load())
	}
	return out, nil
}

// cut ends a segment file after its last good batch.
func (r *recovery) cut(s *seg, out segment.Scanned) error {
	r.log.logger.Warn("log cut", "dir", r.log.dir, "segment", s.base, "size", out.Good,
		"end", out.Next, "why", string(out.Stop), "err", out.Err)
	f, err := s.fs.Open(s.path(segment.LogSuffix), os.O_RDWR)
	if err != nil {
		return err
	}
	// Synced for the same reason as a truncation's.
	return errors.Join(f.Truncate(out.Good), f.Sync(), f.Close())
}

// drop removes the segments from i on.
func (r *recovery) drop(i int, why string) error {
	for _, s := range r.segs[i:] {
		r.log.logger.Warn("segment dropped", "dir", r.log.dir, "segment", s.base, "bytes", s.ext.size, "why", why)
		r.log.recovered.Cut += s.ext.size
		r.log.recovered.Why = why
	}
	err := r.log.removeLaterHeld(r.segs[i:])
	r.segs = r.segs[:i]
	return err
}

// finish publishes what was recovered. The last segment's file is opened by the first who uses it, unless it has bytes
// that no fsync has covered.
func (r *recovery) finish() error {
	l := r.log
	last := r.segs[len(r.segs)-1]
	end := last.ext.next
	for i, s := range r.segs {
		if i < len(r.segs)-1 {
			s.sealed.Store(true)
			s.index.Finish(s.ext.peak)
		}
		if i >= r.scanFrom {
			s.onDisk, s.stale = written{}, true
		}
		if s.firstWall.Load() != 0 {
			s.firstWall.Store(r.firstAppend(s))
			l.reckonAge(s)
		}
	}
	l.files.forget(last)
	last.shut()
	last.pinned = true
	if last.dirty {
		if err := last.openActive(0); err != nil {
			return err
		}
	}
	l.segs.Store(&r.segs)
	l.active = last
	l.start.Store(int64(r.segs[0].base))
	l.end.Store(int64(end))
	l.flushed.Store(int64(min(end, max(r.point.offset, r.segs[0].base))))
	l.newNames = r.scanFrom < len(r.segs)
	l.newDir = l.newNames // a killed process may have made it and not synced its name
	l.newAborted = l.newNames && len(l.aborted) > 0
	if l.newNames && end > record.Offset(l.flushed.Load()) {
		l.waitingSince.Store(l.monoNow())
	}
	l.settleUndecided()
	r.shedIndexes()
	r.removeSnapshots(end)
	if l.newNames && !l.isSmall() { // so that the next start need not scan it again
		l.wakeLocked()
	}
	return nil
}

// reckonAge puts the wall time of a segment's first append on the monotonic clock (R13).
func (l *Log) reckonAge(s *seg) {
	age := max(0, l.clock.Wall().UnixMilli()-s.firstWall.Load())
	s.firstMono.Store(l.monoNow() - age*1e6)
}

// firstAppend is the best that is known of when a segment got its first batch: the
// recovery point's word for the segment that was active then, else when the file
// was made, which is never later.
func (r *recovery) firstAppend(s *seg) int64 {
	if s.base == r.point.base && r.point.firstWall != 0 {
		return r.point.firstWall
	}
	if made, ok := disk.BirthTime(s.path(segment.LogSuffix)); ok {
		return min(made.UnixMilli(), s.lastWall.Load())
	}
	return s.lastWall.Load()
}

// shedIndexes forgets the indexes of sealed segments whose files are whole.
func (r *recovery) shedIndexes() {
	for i, s := range r.segs[:min(r.scanFrom, len(r.segs)-1)] {
		whole := s.onDisk.offsets == len(s.index.Offsets) && s.onDisk.times == len(s.index.Times)
		if whole && i < len(r.segs)-1 {
			s.index = nil
			s.settled = true
		}
	}
}

// removeSnapshots drops the producer states that no truncation can need: beyond the
// end, or of no segment's base. The newest stays even so: it spares the next start
// a walk.
func (r *recovery) removeSnapshots(end record.Offset) {
	newest := record.NoOffset
	for _, at := range r.files.snapshots {
		if at <= end {
			newest = at
		}
	}
	for _, at := range r.files.snapshots {
		if at == end && r.scanFrom == len(r.segs) {
			r.log.snapshotAt = at
		}
		base := slices.ContainsFunc(r.segs, func(s *seg) bool { return s.base == at })
		if at > end || !base && at != newest {
			name := filepath.Join(r.log.dir, segment.Name(at, segment.SnapshotSuffix))
			if err := disk.RemoveIfThere(r.log.fs, name); err != nil {
				r.log.logger.Warn("producer state stays", "dir", r.log.dir, "offset", at, "err", err)
			}
		}
	}
}
