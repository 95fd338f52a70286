package tiering

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/cache"
	"tidemark/tiering/object"
)

// TimeQuery asks about the records of [From, Bound) in the object tier: a cold query always says what
// of the tier may be addressed (B12).
type TimeQuery struct {
	Partition   catalog.PartitionID
	From, Bound record.Offset
}

// Found is a record's place. Epoch is the leader epoch of its batch.
type Found struct {
	Offset    record.Offset
	Timestamp int64
	Epoch     record.Epoch
}

// errMoved: a cached chunk was damaged under a search, which is begun again.
var errMoved = errors.New("tiering: a cached chunk is damaged")

// OffsetForTime finds the first record of [From, Bound) whose timestamp is ≥ ts; false if the tier has
// none there. Errors: ErrStorage, ErrClosed.
func (t *Tier) OffsetForTime(ctx context.Context, q TimeQuery, ts int64) (Found, bool, error) {
	return t.search(ctx, q, func(ctx context.Context) (Found, bool, error) {
		seg, err := t.firstInTime(ctx, q, ts)
		for ; err == nil && seg.Base < q.Bound; seg, err = t.o.Catalog.NextAtTime(ctx, q.Partition, seg.Next, ts) {
			f, ok, err := t.inObject(ctx, seg, q, ts)
			if err != nil || ok {
				return f, ok && f.Offset < q.Bound, err
			}
		}
		if errors.Is(err, catalog.ErrNotFound) {
			err = nil
		}
		return Found{}, false, err
	})
}

// firstInTime is the row in which the search for ts begins.
func (t *Tier) firstInTime(ctx context.Context, q TimeQuery, ts int64) (catalog.Segment, error) {
	seg, err := t.o.Catalog.SegmentAtTime(ctx, q.Partition, ts)
	if err != nil || seg.Next > q.From {
		return seg, err
	}
	// The running maximum may reach ts only below From; the row that holds From comes next.
	seg, err = t.rows.at(ctx, t, q.Partition, q.From)
	if err != nil || seg.MaxTimestamp >= ts {
		return seg, err
	}
	return t.o.Catalog.NextAtTime(ctx, q.Partition, seg.Next, ts)
}

// MaxTimestamp finds the record of [From, Bound) with the largest timestamp, the first of equals (-3 of
// ListOffsets); false if no record there has one. Errors: ErrStorage, ErrClosed.
func (t *Tier) MaxTimestamp(ctx context.Context, q TimeQuery) (Found, bool, error) {
	return t.search(ctx, q, func(ctx context.Context) (Found, bool, error) {
		seg, err := t.o.Catalog.LatestInTime(ctx, q.Partition)
		if errors.Is(err, catalog.ErrNotFound) || err == nil && seg.MaxTimestamp == record.NoTimestamp {
			return Found{}, false, nil
		}
		if err != nil {
			return Found{}, false, err
		}
		if seg.Base >= q.From && seg.Next <= q.Bound {
			return t.inObject(ctx, seg, q, seg.MaxTimestamp)
		}
		return t.maxOfAll(ctx, q)
	})
}

// maxOfAll is MaxTimestamp where the largest one of all rows may lie outside of the range: the rows'
// maxima are compared, and the objects at the edges are looked into.
func (t *Tier) maxOfAll(ctx context.Context, q TimeQuery) (best Found, ok bool, err error) {
	const page = 500
	for at := q.From; at < q.Bound; {
		rows, err := t.o.Catalog.ListSegments(ctx, q.Partition, at, page)
		if err != nil {
			return Found{}, false, err
		}
		for _, seg := range rows {
			at = seg.Next
			if seg.Base >= q.Bound || seg.MaxTimestamp == record.NoTimestamp || ok && seg.MaxTimestamp <= best.Timestamp {
				continue
			}
			f, found, err := t.maxInObject(ctx, seg, q)
			if err != nil {
				return Found{}, false, err
			}
			if found && (!ok || f.Timestamp > best.Timestamp) {
				best, ok = f, true
			}
		}
		if len(rows) < page {
			break
		}
	}
	return best, ok, nil
}

// maxInObject finds the largest timestamp of the object's part of the range. The index knows it for
// groups that lie in the range; those at its edges are walked.
func (t *Tier) maxInObject(ctx context.Context, seg catalog.Segment, q TimeQuery) (best Found, ok bool, err error) {
	tail, err := waiting{t}.tail(ctx, seg)
	if err != nil {
		return Found{}, false, err
	}
	c := chunkRef{seg: seg, tail: tail}
	for _, g := range tail.Groups(q.From, q.Bound) {
		if g.MaxTime == record.NoTimestamp || ok && g.MaxTime <= best.Timestamp {
			continue
		}
		err := t.records(ctx, c, g.Span, func(f Found) bool {
			if f.Offset >= q.From && f.Offset < q.Bound && f.Timestamp != record.NoTimestamp && (!ok || f.Timestamp > best.Timestamp) {
				best, ok = f, true
			}
			return !g.Inside || best.Timestamp < g.MaxTime
		})
		if err != nil {
			return Found{}, false, err
		}
	}
	return best, ok, nil
}

// inObject finds the first record at or above q.From with a timestamp ≥ ts in one object. It looks only
// into groups that the time index names.
func (t *Tier) inObject(ctx context.Context, seg catalog.Segment, q TimeQuery, ts int64) (Found, bool, error) {
	w := waiting{t}
	tail, err := w.tail(ctx, seg)
	if err != nil {
		return Found{}, false, err
	}
	for from, more := q.From, true; more; {
		span, ok := tail.LocateTime(ts, from)
		if !ok {
			break
		}
		var f Found
		ok = false
		err := t.records(ctx, chunkRef{seg: seg, tail: tail}, span, func(r Found) bool {
			if ok = r.Offset >= q.From && r.Timestamp >= ts; ok {
				f = r
			}
			return !ok
		})
		if err != nil || ok {
			return f, ok, err
		}
		from, more = tail.AfterGroup(span)
	}
	return Found{}, false, nil
}

// records calls visit for each record of a group, until it returns false.
func (t *Tier) records(ctx context.Context, c chunkRef, group object.Span, visit func(Found) bool) error {
	c.number, c.span = c.tail.Chunk(group.From, t.o.ChunkBytes)
	h, err := waiting{t}.chunk(ctx, c)
	if err != nil {
		return err
	}
	defer h.Release()
	raw := make([]byte, group.Bytes())
	if n, err := h.ReadAt(raw, group.From-c.span.From); n < len(raw) {
		if errors.Is(err, cache.ErrDamaged) {
			err = errMoved
		}
		return err
	}
	var scratch record.Scratch
	for len(raw) > 0 {
		batch, rest, err := record.Split(raw)
		if err != nil {
			return err
		}
		raw = rest
		head, err := record.ParseHeader(batch)
		if err != nil {
			return err
		}
		for r, err := range record.Records(batch, &scratch) {
			if err != nil {
				return fmt.Errorf("%w: %s: %w", errDigest, c.seg.Key, err)
			}
			if !visit(Found{Offset: r.Offset, Timestamp: r.Timestamp, Epoch: head.LeaderEpoch}) {
				return nil
			}
		}
	}
	return nil
}

// search runs f under a read's deadline and slot, again if an object was replaced under it, and makes
// its errors a read's.
func (t *Tier) search(ctx context.Context, q TimeQuery, f func(context.Context) (Found, bool, error)) (Found, bool, error) {
	req := ReadRequest{Partition: q.Partition, From: q.From}
	if q.From >= q.Bound {
		return Found{}, false, nil
	}
	if !t.Ready() {
		return Found{}, false, t.readError(req, errors.New("the bucket has not been reached yet"))
	}
	ctx, cancel := context.WithTimeout(ctx, t.o.ReadTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	select {
	case t.read.slots <- struct{}{}:
		defer func() { <-t.read.slots }()
	case <-ctx.Done():
		return Found{}, false, t.readError(req, ctx.Err())
	}
	var found Found
	var ok bool
	_, err := t.read.persist(ctx, q.Partition, func() (_ place, err error) {
		for range 3 {
			if found, ok, err = f(ctx); !errors.Is(err, errMoved) {
				break
			}
		}
		return place{}, err
	})
	if err != nil {
		return Found{}, false, t.readError(req, err)
	}
	return found, ok, nil
}
