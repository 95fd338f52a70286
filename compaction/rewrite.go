package compaction

import (
	"context"

	"tidemark/catalog"
	"tidemark/record/producer"
)

// begin begins an object in place of rows [from, to), which fill in what out leaves open.
func (p *pass) begin(ctx context.Context, from, to int, out Output) (Writer, producer.AbortedList, error) {
	var rows []catalog.Segment
	var aborted producer.AbortedList
	for i := from; i < to; i++ {
		o, err := p.object(ctx, i)
		if err != nil {
			return nil, nil, err
		}
		for _, a := range o.Aborted() {
			aborted.Add(a)
		}
		rows = append(rows, p.rows[i].Segment)
	}
	out.Job, out.Rows, out.Last, out.Aborted = p.job, rows, p.opened[to-1], aborted
	w, err := p.objects.Begin(ctx, out)
	return w, aborted, err
}

// copy makes one object of rows [from, to) with all of their records.
func (p *pass) copy(ctx context.Context, from, to int, digests bool) error {
	var size int64
	for _, r := range p.rows[from:to] {
		size += r.DataBytes
	}
	w, aborted, err := p.begin(ctx, from, to, Output{Digests: digests, SizeHint: size})
	if err != nil {
		return err
	}
	f := newFilter(w, nil)
	inputs := p.read(from, to)
	defer inputs.close()
	for i := from; i < to; i++ {
		f.in = p.rows[i]
		if err := f.copyAll(ctx, inputs.next(ctx)); err != nil {
			return err
		}
		p.done.Read += f.in.Bytes
	}
	by, err := w.Commit(ctx, aborted, 0)
	if err != nil {
		return err
	}
	return p.swap(ctx, from, to, by, leave)
}

// sift makes one object of the rows that begin at from, one for each verdict, without what goes. A row by
// itself stays as it is if what goes is not worth a new object.
func (p *pass) sift(ctx context.Context, from int, vs []verdict, ms []marks) error {
	to := from + len(vs)
	var size int64
	for _, v := range vs {
		size += v.bytes + v.bytes/32 // headers of batches do not shrink; to grow would copy all of it
	}
	w, aborted, err := p.begin(ctx, from, to, Output{Digests: true, SizeHint: size, Relies: p.rows[len(p.rows)-1].Next})
	if err != nil {
		return err
	}
	f := newFilter(w, newTransactions(p, from))
	inputs := p.read(from, to)
	defer inputs.close()
	for i := from; i < to; i++ {
		r := inputs.next(ctx)
		f.in, f.list, f.final = p.rows[i], p.opened[i].Aborted(), i == to-1
		if f.keep, err = p.keep(ctx, i, ms[i-from].removed()); err != nil {
			return err
		}
		if err := f.sift(ctx, r); err != nil {
			return err
		}
		p.done.Read += f.in.Bytes
	}
	if r := &p.rows[from]; len(vs) == 1 && !p.policy.worthIt(*r, vs[0], &f.n) {
		r.after = unchanged(*r, &f.n)
		return nil
	}
	if err := p.bereave(ctx, f.txns, to); err != nil {
		return err
	}
	clean, after := since(p.rows[from:to], &f.n)
	by, err := w.Commit(ctx, f.left(aborted), clean)
	if err != nil {
		return err
	}
	p.done.Records += f.n.lost
	p.done.Tombstones += f.n.tombstonesLost
	p.done.Markers += f.n.markersLost
	p.done.Keyless += f.n.keyless
	p.done.Unread += f.n.unread
	return p.swap(ctx, from, to, by, after)
}

// left are the aborted transactions whose marker stays: of their records none does (C2).
func (f *filter) left(all producer.AbortedList) producer.AbortedList {
	var out producer.AbortedList
	for _, a := range all {
		if f.kept[a.Last] {
			out = append(out, a)
		}
	}
	return out
}

// unchanged is the note of a row that was read and stays as it is.
func unchanged(r row, t *tally) note {
	switch {
	case !r.dirty() && !r.due:
		return leave
	case t.tombstones+t.tombstonesLost+t.markersWaiting+t.markersLost > 0:
		return waiting
	}
	return spotless
}
