package compaction

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// fateOf says what becomes of a marker.
type fateOf int

const (
	stays fateOf = iota // records of its transaction are left, or may be
	waits               // none is left; it goes delete.retention.ms after its row has become clean
	goes
)

// transactions follows the transactions of the producers through the objects of one rewrite, to judge
// their markers (C1).
type transactions struct {
	p *pass
	// from is the first of the rewritten rows.
	from int
	// open has what was seen of each producer since its last marker.
	open map[int64]*seen
	// ended has the producers of which a marker was seen: their next transaction began in these rows.
	ended map[int64]bool
	// dropped has the markers' offsets of aborted transactions of which records were dropped here.
	dropped map[record.Offset]bool
	// before is the producers' state where the rows begin; nil until it is needed.
	before *producer.State
}

// seen is whether the input had records of a transaction, and whether any of them stay.
type seen struct{ had, stay bool }

func newTransactions(p *pass, from int) *transactions {
	return &transactions{
		p: p, from: from, open: map[int64]*seen{}, ended: map[int64]bool{}, dropped: map[record.Offset]bool{},
	}
}

// note follows a batch of a committed transaction.
func (t *transactions) note(h record.Header, stay bool) {
	s := t.open[h.ProducerID]
	if s == nil {
		s = &seen{}
		t.open[h.ProducerID] = s
	}
	s.had = s.had || h.Count > 0
	s.stay = s.stay || stay
}

// aborted returns the aborted transaction that a batch belongs to.
func abortedOf(list producer.AbortedList, h record.Header) (producer.Aborted, bool) {
	if !h.IsTransactional() {
		return producer.Aborted{}, false
	}
	for a := range list.Overlapping(h.BaseOffset, h.NextOffset()) {
		if a.ProducerID == h.ProducerID && a.First <= h.BaseOffset {
			return a, true
		}
	}
	return producer.Aborted{}, false
}

// commit judges a commit marker of row in. renews says that records of the transaction have gone only now, so
// that the wait begins with this pass.
func (t *transactions) commit(ctx context.Context, h record.Header, in row) (f fateOf, renews bool, err error) {
	s := t.open[h.ProducerID]
	delete(t.open, h.ProducerID)
	inside := t.ended[h.ProducerID]
	t.ended[h.ProducerID] = true
	if s == nil {
		s = &seen{}
	}
	switch {
	case s.stay:
		return stays, false, nil
	case s.had || in.bereft || !in.due:
		return waits, s.had || in.bereft, nil
	case inside:
		return goes, false, nil
	}
	below, err := t.below(ctx, h.ProducerID)
	if err != nil || below {
		return stays, false, err
	}
	return goes, false, nil
}

// below reports whether a record is left below the rewritten rows of the transaction that a producer has open
// where they begin. It reads the rows that the transaction reaches into; mostly that is one.
func (t *transactions) below(ctx context.Context, id int64) (bool, error) {
	if t.from == 0 {
		return false, nil // what lies below the first row has gone with it
	}
	if t.before == nil {
		o, err := t.p.object(ctx, t.from-1)
		if err != nil {
			return false, err
		}
		if t.before, err = o.Producers(ctx); err != nil {
			return false, err
		}
	}
	first, _, open := t.before.OpenTransaction(id)
	for i := t.from - 1; open && i >= 0 && t.p.rows[i].Next > first; i-- {
		if found, err := t.p.holds(ctx, i, id, first); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// holds reports whether row i has a record of a producer's transaction from an offset on.
func (p *pass) holds(ctx context.Context, i int, id int64, first record.Offset) (bool, error) {
	o, err := p.object(ctx, i)
	if err != nil {
		return false, err
	}
	r := o.ReadBatches(ctx, p.ahead())
	defer r.Close()
	for {
		raw, _, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		h, err := record.ParseHeader(raw)
		if err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrInput, p.rows[i].Key, err)
		}
		p.done.Read += int64(len(raw))
		if h.ProducerID == id && h.IsTransactional() && !h.IsControl() && h.Count > 0 && h.LastOffset() >= first {
			return true, nil
		}
	}
}

// bereave finds the markers above row `to` of transactions that have lost what they had in the rows below it: their
// rows wait from now on, and once more from the end of the pass. It is noted before the records go, since nothing
// would lead a later pass there. A dirty row is judged by itself.
func (p *pass) bereave(ctx context.Context, t *transactions, to int) error {
	var ids []catalog.SegmentID
	for id, s := range t.open {
		if !s.had || s.stay {
			continue
		}
		at, err := p.marker(ctx, id, to)
		if err != nil {
			return err
		}
		if at == len(p.rows) || p.rows[at].dirty() || p.rows[at].bereft {
			continue
		}
		p.rows[at].bereft = true
		ids = append(ids, p.rows[at].ID)
	}
	if len(ids) == 0 {
		return nil
	}
	now, err := p.catalog.Time(ctx)
	if err == nil {
		err = p.catalog.MarkClean(ctx, p.job, ids, now.UnixMilli()+1)
	}
	if err != nil {
		return fmt.Errorf("compaction: note rows of %s whose markers wait: %w", p.job.Partition, err)
	}
	return nil
}

// marker is the row that has the marker of the transaction that a producer has open where row `to` begins.
func (p *pass) marker(ctx context.Context, id int64, to int) (int, error) {
	first := record.Offset(-1)
	for at := to - 1; at < len(p.rows); at++ {
		o, err := p.object(ctx, at)
		if err != nil {
			return 0, err
		}
		state, err := o.Producers(ctx)
		if err != nil {
			return 0, err
		}
		began, _, open := state.OpenTransaction(id)
		if at == to-1 {
			first = began
		}
		if !open || began != first {
			return max(at, to), nil
		}
	}
	return len(p.rows), nil
}

// abort judges an abort marker; first is where its transaction began. Records of it that lie in the
// rewritten rows go now; those in rows below have gone if their objects do not list it any more (C2).
func (t *transactions) abort(ctx context.Context, h record.Header, first record.Offset, due bool) (f fateOf, renews bool, err error) {
	delete(t.open, h.ProducerID)
	t.ended[h.ProducerID] = true
	had := t.dropped[h.LastOffset()]
	for i := t.from - 1; i >= 0 && t.p.rows[i].Next > first; i-- {
		o, err := t.p.object(ctx, i)
		if err != nil {
			return stays, false, err
		}
		for _, a := range o.Aborted() {
			if a.Last == h.LastOffset() {
				return stays, false, nil
			}
		}
	}
	if had || !due {
		return waits, had, nil
	}
	return goes, false, nil
}
