package compaction

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tidemark/record"
	"tidemark/record/producer"
)

// filter passes the batches of one input on to a writer, without the records that go.
type filter struct {
	out     Writer
	txns    *transactions
	scratch record.Scratch
	builder *record.Builder
	buf     []byte
	n       tally

	// Of the present input:
	in   row
	keep []uint32 // what stays, sorted; see pass.keep
	list producer.AbortedList
	// final: the last batch of this input is the last of the new object, which always stays.
	final bool
	// kept has the offsets of the abort markers that stay.
	kept map[record.Offset]bool
}

// tally counts what a filter did.
type tally struct {
	records, lost    int64 // records read, and of them those that went
	keyless, unread  int64 // lost for want of a key; records of batches that cannot be decoded
	tombstonesLost   int64
	tombstones       int64 // that stay
	markersLost      int64
	markersWaiting   int64
	batches, written int64 // batches read, and written
	renews           bool
	bytes            int64 // of batches read
}

func newFilter(out Writer, txns *transactions) *filter {
	return &filter{out: out, txns: txns, builder: record.NewBuilder(record.BuilderOptions{}), kept: map[record.Offset]bool{}}
}

// copyAll passes on everything.
func (f *filter) copyAll(ctx context.Context, r BatchReader) error {
	return f.each(ctx, r, func(raw []byte, h record.Header, _ bool) error {
		return f.put(raw)
	})
}

// sift passes on what stays of an input.
func (f *filter) sift(ctx context.Context, r BatchReader) error {
	return f.each(ctx, r, func(raw []byte, h record.Header, last bool) error {
		last = last && f.final
		switch {
		case h.Count == 0:
			return f.empty(raw, h, last)
		case h.IsControl():
			return f.control(ctx, raw, h, last)
		}
		if a, is := abortedOf(f.list, h); is {
			f.n.lost += int64(h.Count)
			f.txns.dropped[a.Last] = true
			f.skip(h)
			return f.empty(raw, h, last)
		}
		return f.data(raw, h, last)
	})
}

func (f *filter) each(ctx context.Context, r BatchReader, take func([]byte, record.Header, bool) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, last, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		h, err := record.ParseHeader(raw)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrInput, f.in.Key, err)
		}
		f.n.batches++
		f.n.records += int64(h.Count)
		f.n.bytes += int64(len(raw))
		if err := take(raw, h, last); err != nil {
			return err
		}
	}
}

// skip takes the records of a batch off keep and returns those that were on it.
func (f *filter) skip(h record.Header) []uint32 {
	end := int64(h.NextOffset() - f.in.Base)
	n := 0
	for n < len(f.keep) && int64(f.keep[n]>>1) < end {
		n++
	}
	stay := f.keep[:n]
	f.keep = f.keep[n:]
	return stay
}

// data passes on what stays of a batch of records.
func (f *filter) data(raw []byte, h record.Header, last bool) error {
	stay := f.skip(h)
	if int(h.Count) == len(stay) {
		f.stayed(h, stay)
		return f.put(raw)
	}
	// Its CRC was judged when the object was made, and that the object is still the same is known before anything is put (C11).
	if !f.rebuild(raw, h, stay) {
		f.n.unread += int64(h.Count)
		f.stayed(h, nil)
		if h.IsTransactional() {
			f.txns.note(h, true)
		}
		return f.putUnread(raw)
	}
	f.stayed(h, stay)
	f.n.lost += int64(h.Count) - int64(len(stay))
	if len(stay) == 0 && !last {
		return nil
	}
	f.buf = f.builder.AppendTo(f.buf[:0])
	return f.put(f.buf)
}

// stayed notes the records of a batch that stay.
func (f *filter) stayed(h record.Header, stay []uint32) {
	for _, d := range stay {
		if d&tombstoneBit != 0 {
			f.n.tombstones++
		}
	}
	if h.IsTransactional() {
		f.txns.note(h, len(stay) > 0)
	}
}

// rebuild makes the batch of the records that stay, in the builder. False says that the batch cannot be
// decoded (H19); nothing has been counted then.
func (f *filter) rebuild(raw []byte, h record.Header, stay []uint32) bool {
	var keyless, tombstones int64
	f.builder.Reset(record.OptionsOf(h))
	for r, err := range record.Records(raw, &f.scratch) {
		if err != nil {
			return false
		}
		delta := uint32(r.Offset - f.in.Base)
		if len(stay) > 0 && stay[0]>>1 == delta {
			stay = stay[1:]
			if f.builder.Append(r) != nil {
				return false
			}
			continue
		}
		switch {
		case r.Key == nil:
			keyless++
		case r.Value == nil:
			tombstones++
		}
	}
	f.n.keyless += keyless
	f.n.tombstonesLost += tombstones
	return true
}

// control passes on a marker, or not.
func (f *filter) control(ctx context.Context, raw []byte, h record.Header, last bool) error {
	kind, _, err := record.ParseControl(raw)
	if err != nil {
		f.n.unread += int64(h.Count)
		return f.putUnread(raw)
	}
	var fate fateOf
	var renews bool
	switch kind {
	case record.ControlCommit:
		fate, renews, err = f.txns.commit(ctx, h, f.in)
	case record.ControlAbort:
		first := h.BaseOffset
		for a := range f.list.Overlapping(h.BaseOffset, h.NextOffset()) {
			if a.Last == h.LastOffset() {
				first = a.First
			}
		}
		fate, renews, err = f.txns.abort(ctx, h, first, f.in.due)
	}
	if err != nil {
		return err
	}
	f.n.renews = f.n.renews || renews && f.in.CleanSince > 0
	if fate == goes {
		f.n.lost += int64(h.Count)
		f.n.markersLost++
		return f.empty(raw, h, last)
	}
	if fate == waits {
		f.n.markersWaiting++
	}
	f.kept[h.LastOffset()] = true
	return f.put(raw)
}

// empty drops a batch, but for the last one of the object, of which the header stays.
func (f *filter) empty(raw []byte, h record.Header, last bool) error {
	if !last {
		return nil
	}
	if h.Count == 0 {
		return f.put(raw)
	}
	f.builder.Reset(record.OptionsOf(h))
	f.buf = f.builder.AppendTo(f.buf[:0])
	return f.put(f.buf)
}

func (f *filter) put(batch []byte) error {
	f.n.written++
	return f.out.Append(batch)
}

func (f *filter) putUnread(batch []byte) error {
	f.n.written++
	return f.out.AppendUnread(batch)
}
