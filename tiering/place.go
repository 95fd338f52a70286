package tiering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/cache"
	"tidemark/tiering/object"
)

// pin is a hold on a cached chunk that several answers share.
type pin struct {
	handle *cache.Handle
	refs   atomic.Int32
}

func newPin(h *cache.Handle) *pin {
	p := &pin{handle: h}
	p.refs.Store(1)
	return p
}

func (p *pin) retain() *pin {
	p.refs.Add(1)
	return p
}

func (p *pin) release() {
	if p.refs.Add(-1) == 0 {
		p.handle.Release()
	}
}

// place is where a read begins: a batch in a pinned chunk. With a nil pin there is no batch in
// [from, next).
type place struct {
	pin  *pin
	tail *object.Tail
	span object.Span
	// position is the batch's in the object's data, base its base offset.
	position int64
	base     record.Offset
	next     record.Offset
}

// steps are how a read goes from offset to bytes; with or without waiting.
type steps interface {
	row(ctx context.Context, p catalog.PartitionID, o record.Offset) (catalog.Segment, error)
	tail(ctx context.Context, s catalog.Segment) (*object.Tail, error)
	chunk(ctx context.Context, c chunkRef) (*cache.Handle, error)
}

// chunkRef names a chunk of an object.
type chunkRef struct {
	seg    catalog.Segment
	tail   *object.Tail
	number int64
	span   object.Span
	owner  uint64
}

// brokenError says that a live row's object is lost or damaged.
type brokenError struct {
	seg catalog.Segment
	err error
}

func (e *brokenError) Error() string {
	return fmt.Sprintf("object %s of [%d,%d): %v", e.seg.Key, e.seg.Base, e.seg.Next, e.err)
}
func (e *brokenError) Unwrap() error { return e.err }

// find goes to the first batch that ends at or after from: over holes, and on into the next object
// where one has none left (H9, B1). It stops at bound. Errors: catalog.ErrNotFound if no row covers
// from itself, brokenError, those of the steps.
func (r *readers) find(ctx context.Context, st steps, req ReadRequest) (place, error) {
	for at := req.From; ; {
		seg, err := st.row(ctx, req.Partition, at)
		if errors.Is(err, catalog.ErrNotFound) && at > req.From {
			return place{next: at}, nil
		}
		if err != nil {
			return place{}, err
		}
		tail, err := st.tail(ctx, seg)
		if err != nil {
			return place{}, err
		}
		pl, err := r.findIn(ctx, st, req, chunkRef{seg: seg, tail: tail, owner: req.Owner})
		if err != nil || pl.pin != nil {
			return pl, err
		}
		if at = seg.Next; at >= req.Bound {
			return place{next: at}, nil
		}
	}
}

// findIn is find within one object; a place without pin if it has no such batch.
func (r *readers) findIn(ctx context.Context, st steps, req ReadRequest, c chunkRef) (place, error) {
	position := c.tail.Locate(req.From)
	for position < c.tail.DataBytes {
		c.number, c.span = c.tail.Chunk(position, r.t.o.ChunkBytes)
		h, err := st.chunk(ctx, c)
		if err != nil {
			return place{}, err
		}
		w := newWalk(h, position-c.span.From)
		for w.next() {
			if w.header.LastOffset() >= req.From {
				pl := place{pin: newPin(h), tail: c.tail, span: c.span, position: c.span.From + w.at, base: w.header.BaseOffset}
				w.close()
				return pl, nil
			}
		}
		err = w.close()
		h.Release()
		if errors.Is(err, cache.ErrDamaged) {
			continue // the cache has dropped its file: get it again
		}
		if err != nil {
			return place{}, err
		}
		position = c.span.To
	}
	return place{}, nil
}

// cut makes the answer to req that begins at a place. It takes over the place's pin.
func (r *readers) cut(pl place, req ReadRequest) (*Chunk, error) {
	if pl.pin == nil {
		return &Chunk{Next: max(pl.next, req.From)}, nil
	}
	if pl.base >= req.Bound {
		pl.pin.release()
		return &Chunk{Next: max(req.Bound, req.From)}, nil
	}
	end, next, err := r.endOf(pl, req)
	if err != nil || end == pl.position {
		pl.pin.release()
		return &Chunk{Next: req.From}, err
	}
	c := &Chunk{Size: end - pl.position, Next: next, pin: pl.pin, at: pl.position - pl.span.From}
	if req.Committed {
		c.Aborted = pl.tail.Aborted(nil, pl.base, next)
	}
	return c, nil
}

// endOf is where the answer ends in the data, and the offset to go on at. Only the group in which it
// ends is walked. The end is the place's position if the first batch does not fit.
func (r *readers) endOf(pl place, req ReadRequest) (end int64, next record.Offset, err error) {
	rest, ok := pl.tail.AfterGroup(pl.span)
	if !ok {
		rest = pl.tail.Next
	}
	limit := pl.span.To
	if req.MaxBytes < limit-pl.position {
		limit = pl.position + max(req.MaxBytes, 0)
	} else if rest <= req.Bound {
		return pl.span.To, rest, nil
	}
	from := max(pl.position, min(pl.tail.GroupBefore(min(limit, pl.span.To-1)), pl.tail.Locate(req.Bound)))
	w := newWalk(pl.pin.handle, from-pl.span.From)
	end, next = from, record.NoOffset
	for w.next() {
		if from > pl.position && next == record.NoOffset {
			next = w.header.BaseOffset
		}
		to := pl.span.From + w.at + int64(w.header.Size())
		forced := req.AtLeastOne && end == pl.position
		if w.header.BaseOffset >= req.Bound || to > limit && !forced {
			break
		}
		end, next = to, w.header.NextOffset()
	}
	return end, next, w.close()
}

// walk goes over the batch headers of a chunk.
type walk struct {
	h      *cache.Handle
	pos    int64 // of the next batch
	at     int64 // of the batch whose header is in header
	header record.Header
	err    error

	window []byte
	begin  int64 // of the window in the chunk
	buf    *[]byte
}

const walkWindow = 64 << 10

var walkBuffers = sync.Pool{New: func() any { b := make([]byte, walkWindow); return &b }}

func newWalk(h *cache.Handle, pos int64) *walk {
	return &walk{h: h, pos: pos, buf: walkBuffers.Get().(*[]byte)}
}

// next reads the next header; false at the end or after an error, which close returns.
func (w *walk) next() bool {
	if w.err != nil || w.pos >= w.h.Len() {
		return false
	}
	if w.pos < w.begin || w.pos+record.HeaderSize > w.begin+int64(len(w.window)) {
		w.begin = w.pos
		w.window = (*w.buf)[:min(walkWindow, w.h.Len()-w.pos)]
		if n, err := w.h.ReadAt(w.window, w.pos); n < len(w.window) {
			w.err = err
			return false
		}
	}
	if w.header, w.err = record.ParseHeader(w.window[w.pos-w.begin:]); w.err != nil {
		return false
	}
	w.at = w.pos
	w.pos += int64(w.header.Size())
	return true
}

// close gives the walk's memory back.
func (w *walk) close() error {
	if w.buf != nil {
		walkBuffers.Put(w.buf)
		w.buf, w.window = nil, nil
	}
	return w.err
}
