package hotlog

import (
	"fmt"
	"math"
	"sync"

	"tidemark/hotlog/segment"
	"tidemark/record"
)

// Read returns whole batches of one segment, from the first whose last offset is
// at least from (H9) to the last that ends at or below bound and within maxBytes.
// With atLeastOne the first batch comes even if it is larger. The section is
// empty, its Next equal to from, where no batch fits: at bound, at the end, or in
// front of a batch that crosses bound. The caller reads on at Next.
//
// Errors: ErrBelowLocal (ask the tier), ErrOutOfRange (above the log's end),
// record's errors where the file is damaged.
func (l *Log) Read(from, bound record.Offset, maxBytes int, atLeastOne bool) (*Section, error) {
	end := record.Offset(l.end.Load())
	if from > end {
		return nil, fmt.Errorf("%w: %s: offset %d, end %d", ErrOutOfRange, l.dir, from, end)
	}
	segs := *l.segs.Load()
	i := find(segs, from)
	if i < 0 || from < record.Offset(l.start.Load()) {
		return nil, fmt.Errorf("%w: %s: offset %d, local start %d", ErrBelowLocal, l.dir, from, l.start.Load())
	}
	bound = min(bound, end)
	if from >= bound {
		return &Section{First: from, Next: from}, nil
	}
	l.files.BeginRead()
	section, err := l.readSegment(segs[i], span{from, bound, int64(maxBytes), atLeastOne})
	l.files.EndRead()
	if err != nil {
		return nil, fmt.Errorf("read %s at %d: %w", l.dir, from, err)
	}
	return section, nil
}

// Range returns the batches of one segment from the one that holds from up to the
// segment's end or the last batch edge at or below to, as an upload wants them.
func (l *Log) Range(from, to record.Offset) (*Section, error) {
	return l.Read(from, to, math.MaxInt, true)
}

// span is what a reader wants of a segment.
type span struct {
	from, bound record.Offset
	maxBytes    int64
	atLeastOne  bool
}

var walkers = sync.Pool{New: func() any { return new(segment.Walker) }}

func (l *Log) readSegment(s *seg, want span) (*Section, error) {
	h, err := s.acquire(l.files)
	if err != nil {
		return nil, err
	}
	section, err := cutSection(s, h, want)
	if err != nil || section.Len == 0 {
		h.release()
		return section, err
	}
	section.handle, section.files = h, l.files
	return section, nil
}

// cutSection finds the section's edges: by the index, then by the headers of the
// few batches between two of its entries.
func cutSection(s *seg, h *handle, want span) (*Section, error) {
	ext := s.extent()
	if last := ext.size - ext.lastPos; want.from == ext.lastBase && want.bound >= ext.next && 0 < last && last <= want.maxBytes && !s.sealed.Load() {
		// The last append, all of it: who reads at the head needs no system call to find it.
		return &Section{File: h.file.OS(), Pos: ext.lastPos, Len: last, First: want.from, Next: ext.next}, nil
	}
	w := walkers.Get().(*segment.Walker)
	defer walkers.Put(w)
	pos, err := startOf(s, h, ext, want.from)
	if err != nil {
		return nil, err
	}
	w.Reset(h.file.OS(), pos, ext.size)
	for w.Next() && w.Header().LastOffset() < want.from {
	}
	if w.Err() != nil {
		return nil, w.Err()
	}
	first := w.Header()
	pos = w.Pos()
	if first.BaseOffset > want.from {
		return nil, fmt.Errorf("%w: batch at %d where %d should be", record.ErrCorrupt, first.BaseOffset, want.from)
	}
	if first.LastOffset() < want.from || first.NextOffset() > want.bound ||
		int64(first.Size()) > want.maxBytes && !want.atLeastOne {
		return &Section{First: want.from, Next: want.from}, nil
	}
	end, next := w.After(), first.NextOffset()
	limit := ext.size
	if want.maxBytes < ext.size-pos {
		limit = pos + want.maxBytes
	}
	if limit == ext.size && want.bound >= ext.next {
		end, next = ext.size, ext.next
	} else if end, next, err = endOf(s, h, w, edge{end, next, limit, want.bound}); err != nil {
		return nil, err
	}
	return &Section{File: h.file.OS(), Pos: pos, Len: end - pos, First: first.BaseOffset, Next: next}, nil
}

// startOf is a batch edge at or before the batch that holds from.
func startOf(s *seg, h *handle, ext extent, from record.Offset) (int64, error) {
	if from >= ext.lastBase {
		return ext.lastPos, nil
	}
	var pos int64
	err := s.search(h, func(x *segment.Index) { pos = x.Floor(from) })
	return pos, err
}

// edge is a batch edge that lies within a reader's limits, and the limits.
type edge struct {
	pos   int64
	next  record.Offset
	limit int64
	bound record.Offset
}

// endOf goes from an edge to the last one at or below limit and bound. Index
// entries up to there are jumped over.
func endOf(s *seg, h *handle, w *segment.Walker, e edge) (int64, record.Offset, error) {
	jump := int64(0)
	err := s.search(h, func(x *segment.Index) { jump = min(x.FloorPos(e.limit), x.Floor(e.bound-1)) })
	if err != nil {
		return 0, 0, err
	}
	size := s.extent().size
	if jump > e.pos && jump < size {
		w.Reset(h.file.OS(), jump, size)
	}
	for w.Next() {
		hd := w.Header()
		if w.Pos() > e.pos && w.Pos() <= e.limit && hd.BaseOffset <= e.bound {
			e.pos, e.next = w.Pos(), hd.BaseOffset
		}
		if w.After() > e.limit || hd.NextOffset() > e.bound {
			break
		}
		e.pos, e.next = w.After(), hd.NextOffset()
	}
	return e.pos, e.next, w.Err()
}
