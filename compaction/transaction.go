package compaction

import (
	"context"

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

// commit judges a commit marker; due says that its row has been clean for long enough. renews says that
// records of the transaction have gone only now, so that the wait begins with this pass.
func (t *transactions) commit(ctx context.Context, h record.Header, due bool) (f fateOf, renews bool, err error) {
	s := t.open[h.ProducerID]
	delete(t.open, h.ProducerID)
	inside := t.ended[h.ProducerID]
	t.ended[h.ProducerID] = true
	if s == nil {
		s = &seen{}
	}
	if s.stay {
		return stays, false, nil
	}
	if !inside {
		if inside, err = t.beganHere(ctx, h.ProducerID); err != nil || !inside {
			return stays, false, err
		}
	}
	if s.had || !due {
		return waits, s.had, nil
	}
	return goes, false, nil
}

// beganHere reports whether a producer had no open transaction where the rewritten rows begin. One that
// began in an object below may have records there that nobody has looked for.
func (t *transactions) beganHere(ctx context.Context, id int64) (bool, error) {
	if t.from == 0 {
		return true, nil // what lies below the first row has gone with it
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
	_, _, open := t.before.OpenTransaction(id)
	return !open, nil
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
