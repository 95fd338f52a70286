package tiering

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/objstore"
)

// comeback is a partition whose lost swaps are to come back.
type comeback struct {
	p       catalog.PartitionID
	guard   catalog.Guard
	claimed map[string]claim
	bounds  catalog.Bounds
	log     *lane // whose log has to agree with what extends the tier; nil: nobody leads yet
}

// swapBack publishes lost merges and compactions again in the place of the rows that they replaced, whose objects may
// have been deleted since, lowest offsets first. After one that moves tiered it returns, for uploads may continue it then.
//
// A compaction is right only beside what it was judged by: the newer records of its keys have to be in the tier, and what
// was compacted below it has to be compacted, or a tombstone that is gone no longer hides it (R15). Where that is
// not so, or a swap was refused, the swaps above come back only if an object that they replace is gone: then there is
// nothing else to read. The others are done anew by the next pass.
func (t *Tier) swapBack(ctx context.Context, c comeback) (catalog.Bounds, error) {
	plan, err := t.planBack(ctx, &c)
	if err != nil {
		return c.bounds, err
	}
	if i := slices.IndexFunc(plan.in, swapIn.extends); i >= 0 {
		s := plan.in[i]
		done, err := t.swapOne(ctx, &c, s, false)
		if done || err != nil {
			return c.bounds, err
		}
		c.claimed[s.Attempt] = claim{Publication: c.claimed[s.Attempt].Publication, refused: true}
		return t.swapBack(ctx, c)
	}
	hindered := record.Offset(math.MaxInt64) // from here on nothing comes back in order
	giveUp := func(p catalog.Publication, why string) {
		t.m.swapsGone.Inc()
		t.log.Warn("a swap that the catalog has lost is given up", "partition", p.Partition, "base", int64(p.Base), "next", int64(p.Next),
			"generation", p.Generation, "key", p.Key, "why", why)
		hindered = min(hindered, p.Base)
	}
	for _, p := range plan.left {
		giveUp(p, "the rows that it replaced are not there, or its object is not")
	}
	for _, s := range plan.in {
		inOrder := s.Relies == 0 || s.Relies <= c.bounds.Tiered && s.Base < hindered
		if !inOrder {
			gone, err := t.anyGone(ctx, s.over)
			if err != nil {
				return c.bounds, err
			}
			if !gone {
				giveUp(s.Publication, "not all that it was judged by is there; it will be done anew")
				continue
			}
		}
		done, err := t.swapOne(ctx, &c, s, inOrder)
		if err != nil {
			return c.bounds, err
		}
		if !done {
			giveUp(s.Publication, "the catalog refused it")
		}
	}
	return c.bounds, nil
}

// planBack holds the lost swaps against the live rows and the bucket.
func (t *Tier) planBack(ctx context.Context, c *comeback) (swapPlan, error) {
	lost := make(map[string]catalog.Publication, len(c.claimed))
	from, to := record.NoOffset, record.NoOffset
	for id, x := range c.claimed {
		lost[id] = x.Publication
		if x.Generation == 0 {
			continue
		}
		if from == record.NoOffset || x.Base < from {
			from = x.Base
		}
		to = max(to, x.Next)
	}
	if to == record.NoOffset {
		return swapPlan{}, nil
	}
	live, err := t.liveIn(ctx, c.p, from, to)
	if err != nil {
		return swapPlan{}, err
	}
	return planSwaps(live, lost, c.bounds.Tiered, func(s catalog.Segment) (bool, error) {
		if c.claimed[s.Attempt].refused {
			return false, nil
		}
		err := t.holds(ctx, s)
		if err != nil && unusable(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("tiering: object of a lost swap: %w", err)
		}
		return s.Next <= c.bounds.Tiered || c.log == nil || t.agrees(ctx, c.log, s), nil
	})
}

// liveIn lists the live rows that meet [from, to).
func (t *Tier) liveIn(ctx context.Context, p catalog.PartitionID, from, to record.Offset) (live []catalog.Segment, err error) {
	const page = 1000
	for from < to {
		call, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
		rows, err := t.o.Catalog.ListSegments(call, p, from, page)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("tiering: rows of %s from %d: %w", p, from, err)
		}
		for _, s := range rows {
			if s.Base < to {
				live = append(live, s)
			}
		}
		if len(rows) < page {
			break
		}
		from = rows[len(rows)-1].Next
	}
	return live, nil
}

// anyGone says whether an object of the rows is not in the bucket.
func (t *Tier) anyGone(ctx context.Context, rows []catalog.Segment) (bool, error) {
	for _, s := range rows {
		call, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
		_, err := t.upStore.Stat(call, s.Key)
		cancel()
		if errors.Is(err, objstore.ErrNotFound) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("tiering: object that a lost swap replaced: %w", err)
		}
	}
	return false, nil
}

// swapOne publishes one lost swap. done is false if its intent or the rows are not there any more.
func (t *Tier) swapOne(ctx context.Context, c *comeback, s swapIn, inOrder bool) (done bool, err error) {
	row, old, replaced := s.Segment, make([]catalog.SegmentID, len(s.over)), make([]string, len(s.over))
	for i, o := range s.over {
		old[i], replaced[i] = o.ID, o.Attempt
	}
	if !inOrder {
		row.CleanSince = 0 // a pass has to look what lies below it
	}
	if err := t.note(catalog.Publication{Segment: row, Replaced: replaced, Relies: s.Relies}); err != nil {
		return false, err
	}
	call, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	b, err := t.o.Catalog.SwapLost(call, c.guard, old, row)
	if errors.Is(err, catalog.ErrIntentGone) || errors.Is(err, catalog.ErrNotContiguous) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("tiering: swap [%d,%d) of %s in again: %w", row.Base, row.Next, c.p, err)
	}
	c.bounds = b
	t.rows.put(row)
	t.m.republished.Inc()
	if c.log != nil {
		c.log.see(b)
		c.log.source.Published(b)
	}
	t.log.Info("a swap that the catalog had lost is there again", "partition", c.p, "base", int64(row.Base), "next", int64(row.Next),
		"rows", len(old), "generation", row.Generation, "in_order", inOrder)
	return true, nil
}
