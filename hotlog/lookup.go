package hotlog

import (
	"fmt"

	"tidemark/hotlog/segment"
	"tidemark/record"
)

// TimePoint is a record that a lookup by time found.
type TimePoint struct {
	Offset    record.Offset
	Timestamp int64 // ms
	Epoch     record.Epoch
}

// OffsetForTime finds the first record of [from, bound) whose timestamp is at
// least ts (ms); false if there is none. Error: ErrBelowLocal, or damage.
func (l *Log) OffsetForTime(ts int64, from, bound record.Offset) (TimePoint, bool, error) {
	segs, err := l.within(from, bound)
	if err != nil {
		return TimePoint{}, false, err
	}
	l.files.BeginRead()
	defer l.files.EndRead()
	for _, s := range segs {
		if s.extent().peak.Timestamp < ts {
			continue
		}
		p, found, err := l.firstAtTime(s, ts, from, bound)
		if err != nil {
			return p, false, fmt.Errorf("look for time %d in %s: %w", ts, s.path(segment.LogSuffix), err)
		}
		if found {
			return p, true, nil
		}
	}
	return TimePoint{}, false, nil
}

// within lists the segments that meet [from, bound).
func (l *Log) within(from, bound record.Offset) ([]*seg, error) {
	segs := *l.segs.Load()
	i := find(segs, from)
	if i < 0 || from < record.Offset(l.start.Load()) {
		return nil, fmt.Errorf("%w: %s: offset %d, local start %d", ErrBelowLocal, l.dir, from, l.start.Load())
	}
	j := i
	for j < len(segs) && segs[j].base < bound {
		j++
	}
	return segs[i:j], nil
}

// firstAtTime searches one segment: time index, offset index, headers, records.
func (l *Log) firstAtTime(s *seg, ts int64, from, bound record.Offset) (TimePoint, bool, error) {
	h, err := s.acquire(l.files)
	if err != nil {
		return TimePoint{}, false, err
	}
	defer h.release()
	ext := s.extent()
	var pos int64
	if err := s.search(h, func(x *segment.Index) { pos = x.Floor(max(from, x.FloorTime(ts))) }); err != nil {
		return TimePoint{}, false, err
	}
	v := visit{h: h, from: from, bound: bound}
	w := walkers.Get().(*segment.Walker)
	defer walkers.Put(w)
	w.Reset(h.file.OS(), pos, ext.size)
	for w.Next() && w.Header().BaseOffset < bound {
		hd := w.Header()
		if hd.LastOffset() < from || hd.MaxTimestamp < ts {
			continue
		}
		p, found, err := v.first(w, func(r record.Record) bool { return r.Timestamp >= ts })
		if err != nil || found {
			return p, found, err
		}
	}
	return TimePoint{}, false, w.Err()
}

// visit reads the records of single batches.
type visit struct {
	h           *handle
	from, bound record.Offset
	buf         []byte
	scratch     record.Scratch
}

// first is the batch's first record of [from, bound) that is wanted.
func (v *visit) first(w *segment.Walker, wanted func(record.Record) bool) (TimePoint, bool, error) {
	hd := w.Header()
	if cap(v.buf) < hd.Size() {
		v.buf = make([]byte, hd.Size())
	}
	b := v.buf[:hd.Size()]
	if _, err := v.h.file.OS().ReadAt(b, w.Pos()); err != nil {
		return TimePoint{}, false, err
	}
	if err := record.CheckCRC(b); err != nil {
		return TimePoint{}, false, err
	}
	for r, err := range record.Records(b, &v.scratch) {
		if err != nil {
			return TimePoint{}, false, err
		}
		if r.Offset >= v.from && r.Offset < v.bound && wanted(r) {
			return TimePoint{r.Offset, r.Timestamp, hd.LeaderEpoch}, true, nil
		}
	}
	return TimePoint{}, false, nil
}

// MaxTimestamp finds the first of the records of [from, bound) with the largest
// timestamp (ListOffsets -3); false if there is no record. Error: ErrBelowLocal,
// or damage.
func (l *Log) MaxTimestamp(from, bound record.Offset) (TimePoint, bool, error) {
	segs, err := l.within(from, bound)
	if err != nil {
		return TimePoint{}, false, err
	}
	l.files.BeginRead()
	defer l.files.EndRead()
	var best TimePoint
	found := false
	for _, s := range segs {
		ext := s.extent()
		if found && ext.peak.Timestamp <= best.Timestamp {
			continue
		}
		p, ok, err := l.peakWithin(s, ext, from, bound)
		if err != nil {
			return best, false, fmt.Errorf("largest time in %s: %w", s.path(segment.LogSuffix), err)
		}
		if ok && (!found || p.Timestamp > best.Timestamp) {
			best, found = p, true
		}
	}
	return best, found, nil
}

// peakWithin answers for one segment. Its own peak is the answer if the batch that
// has it lies in the range; else the headers of the range are walked.
func (l *Log) peakWithin(s *seg, ext extent, from, bound record.Offset) (TimePoint, bool, error) {
	if ext.size == 0 {
		return TimePoint{}, false, nil
	}
	if s.base >= from && ext.peak.At < bound {
		return l.firstAtTime(s, ext.peak.Timestamp, from, bound)
	}
	h, err := s.acquire(l.files)
	if err != nil {
		return TimePoint{}, false, err
	}
	defer h.release()
	var pos int64
	if err := s.search(h, func(x *segment.Index) { pos = x.Floor(from) }); err != nil {
		return TimePoint{}, false, err
	}
	v := visit{h: h, from: from, bound: bound}
	w := walkers.Get().(*segment.Walker)
	defer walkers.Put(w)
	var best TimePoint
	found := false
	w.Reset(h.file.OS(), pos, ext.size)
	for w.Next() && w.Header().BaseOffset < bound {
		hd := w.Header()
		if hd.LastOffset() < from || hd.Count == 0 || found && hd.MaxTimestamp <= best.Timestamp {
			continue
		}
		if err := v.peak(w, &best, &found); err != nil {
			return best, false, err
		}
	}
	return best, found, w.Err()
}

// peak raises best by the batch's records.
func (v *visit) peak(w *segment.Walker, best *TimePoint, found *bool) error {
	for {
		p, ok, err := v.first(w, func(r record.Record) bool { return !*found || r.Timestamp > best.Timestamp })
		if err != nil || !ok {
			return err
		}
		*best, *found = p, true
	}
}
