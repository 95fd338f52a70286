package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/record"
)

// Partition is one to verify, by its topic's name.
type Partition struct {
	ID    catalog.PartitionID
	Topic string
}

// Request says what to verify.
type Request struct {
	Partitions []Partition
	// Deep reads every byte; otherwise only existence, size and footer are looked at.
	Deep bool
	// Bucket compares the bucket with the catalog too: all of it, or what lies under Topic.
	Bucket bool
	Topic  *catalog.TopicID
}

// Progress is how far a verification is. The totals are those of its beginning.
type Progress struct {
	Partitions  int   `json:"partitions"`
	OfParts     int   `json:"ofPartitions"`
	Objects     int64 `json:"objects"`
	Bytes       int64 `json:"bytes"`
	OfBytes     int64 `json:"ofBytes"`
	Listed      int64 `json:"listed"` // keys of the bucket
	Problems    int64 `json:"problems"`
	Unreachable int64 `json:"unreachable"` // objects that the store did not give
}

// giveUpAfter is how many objects in a row the store may refuse before a verification ends.
const giveUpAfter = 50

// ErrAway: the store or the catalog does not answer.
var ErrAway = errors.New("audit: the bucket does not answer")

// run is one verification.
type run struct {
	a      *Auditor
	req    Request
	report func(Problem, Progress)
	pace   pacing

	mu      sync.Mutex // guards done, and makes reports follow each other
	done    Progress
	refused atomic.Int64 // in a row
}

// Verify checks what the request names and calls report with each problem, and with none (Kind "") now
// and then to tell how far it is. It returns the last Progress. Errors: ErrAway, the catalog's, the
// context's.
func (a *Auditor) Verify(ctx context.Context, req Request, report func(Problem, Progress)) (Progress, error) {
	return a.verify(ctx, req, report, nil)
}

func (a *Auditor) verify(ctx context.Context, req Request, report func(Problem, Progress), pace pacing) (Progress, error) {
	r := &run{a: a, req: req, report: report, pace: pace}
	r.done.OfParts = len(req.Partitions)
	for _, p := range req.Partitions {
		call, cancel := a.call(ctx)
		row, err := a.o.Catalog.Partition(call, p.ID)
		cancel()
		if err != nil && !errors.Is(err, catalog.ErrNotFound) {
			return r.done, err
		}
		r.done.OfBytes += row.TierBytes
	}
	for _, p := range req.Partitions {
		if err := r.partition(ctx, p); err != nil {
			return r.done, fmt.Errorf("verify %s-%d: %w", p.Topic, p.ID.Partition, err)
		}
		r.count(func(d *Progress) { d.Partitions++ })
	}
	if req.Bucket {
		if err := r.bucket(ctx); err != nil {
			return r.done, fmt.Errorf("compare the bucket with the catalog: %w", err)
		}
	}
	return r.done, nil
}

// found reports a problem.
func (r *run) found(p Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Problems++
	r.report(p, r.done)
}

// count moves the progress on and tells it.
func (r *run) count(change func(*Progress)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.done)
	r.report(Problem{}, r.done)
}

// page is how many rows or keys are asked for at once.
const page = 1000

// chain checks that rows continue each other.
type chain struct {
	next  record.Offset // where the next row must begin, -1: nothing seen
	bytes int64
}

// partition checks one partition: its rows' continuity, and each row's object.
func (r *run) partition(ctx context.Context, p Partition) error {
	before, err := r.bounds(ctx, p)
	if errors.Is(err, catalog.ErrNotFound) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	c := chain{next: -1}
	for from := record.Offset(0); ; { // what lies below start is removed in steps, and counts until then
		call, cancel := r.a.call(ctx)
		rows, err := r.a.o.Catalog.ListSegments(call, p.ID, from, page)
		cancel()
		if err != nil {
			return err
		}
		if len(rows) > 0 && c.next >= 0 && rows[0].Base < c.next {
			rows = rows[1:] // a swap has put a longer row over what was seen already
		}
		if err := r.rows(ctx, p, rows); err != nil {
			return err
		}
		r.follow(ctx, p, rows, &c)
		if len(rows) < page-1 {
			break
		}
		from = rows[len(rows)-1].Next
	}
	return r.ends(ctx, p, before, c)
}

func (r *run) bounds(ctx context.Context, p Partition) (catalog.Bounds, error) {
	ctx, cancel := r.a.call(ctx)
	defer cancel()
	row, err := r.a.o.Catalog.Partition(ctx, p.ID)
	return row.Bounds, err
}

// rows checks the objects of a page.
func (r *run) rows(ctx context.Context, p Partition, rows []catalog.Segment) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.a.o.Workers)
	for _, row := range rows {
		g.Go(func() error {
			f, err := r.a.check(ctx, row, r.req.Deep, r.pace)
			if err != nil {
				return err
			}
			if f != nil && f.kind == Unreadable {
				if r.refused.Add(1) >= giveUpAfter {
					return fmt.Errorf("%w: %s", ErrAway, f.detail)
				}
				r.count(func(d *Progress) { d.Unreachable++ })
			} else {
				r.refused.Store(0)
			}
			if f != nil && r.a.stillLive(ctx, row) {
				r.found(Problem{Kind: f.kind, Topic: p.Topic, Partition: p.ID.Partition, Base: row.Base, Next: row.Next, Key: row.Key, Detail: f.detail})
			}
			r.count(func(d *Progress) { d.Objects++; d.Bytes += row.Bytes })
			return nil
		})
	}
	return g.Wait()
}

// follow holds rows against those before them. A gap that a swap in between made is looked at again.
func (r *run) follow(ctx context.Context, p Partition, rows []catalog.Segment, c *chain) {
	for _, row := range rows {
		if c.next >= 0 && row.Base != c.next {
			call, cancel := r.a.call(ctx)
			_, err := r.a.o.Catalog.SegmentAt(call, p.ID, min(c.next, row.Base))
			cancel()
			if errors.Is(err, catalog.ErrNotFound) {
				r.found(Problem{Kind: Continuity, Topic: p.Topic, Partition: p.ID.Partition, Base: c.next, Next: row.Base,
					Detail: fmt.Sprintf("no row covers [%d, %d)", c.next, row.Base)})
			}
		}
		c.next = row.Next
		c.bytes += row.Bytes
	}
}

// ends holds the rows as a whole against the partition's row, if that has not moved meanwhile.
func (r *run) ends(ctx context.Context, p Partition, before catalog.Bounds, c chain) error {
	now, err := r.bounds(ctx, p)
	if errors.Is(err, catalog.ErrNotFound) || err == nil && now != before {
		return nil
	}
	if err != nil {
		return err
	}
	problem := func(k Kind, format string, args ...any) {
		r.found(Problem{Kind: k, Topic: p.Topic, Partition: p.ID.Partition, Detail: fmt.Sprintf(format, args...)})
	}
	if end := max(c.next, now.Start); end != now.Tiered {
		problem(Continuity, "the rows reach to %d, tiered is %d", end, now.Tiered)
	}
	if now.Tiered > now.Start {
		call, cancel := r.a.call(ctx)
		defer cancel()
		if _, err := r.a.o.Catalog.SegmentAt(call, p.ID, now.Start); errors.Is(err, catalog.ErrNotFound) {
			problem(Continuity, "no row covers the log start %d", now.Start)
		}
	}
	if c.bytes != now.TierBytes {
		problem(Accounting, "the rows add up to %d bytes, tier_bytes is %d", c.bytes, now.TierBytes)
	}
	return nil
}
