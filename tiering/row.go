package tiering

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// maxRows bounds the rows in memory, about 300 bytes each.
const maxRows = 50_000

// rowCache keeps rows that were looked up. A row is believed for ttl from its look-up, however often it
// is used; longer only while the catalog cannot be asked (R8).
type rowCache struct {
	ttl time.Duration

	mu    sync.Mutex // guards what is below
	byID  map[catalog.PartitionID]*partitionRows
	order *list.List // of *partitionRows, the last used one in front
	count int
	// away is when the catalog last failed to answer.
	away time.Time
}

const (
	// staleWait is how long the catalog is asked for while an old row could serve.
	staleWait = 2 * time.Second
	// awayFor is how long it is not asked again after it did not answer.
	awayFor = time.Second
)

type partitionRows struct {
	p     catalog.PartitionID
	rows  []knownRow // by base, without overlap
	place *list.Element
}

type knownRow struct {
	catalog.Segment
	at time.Time
}

func newRowCache(ttl time.Duration) *rowCache {
	return &rowCache{ttl: ttl, byID: make(map[catalog.PartitionID]*partitionRows), order: list.New()}
}

// get returns the row that covers o and whether it is fresh; found is false if none is known.
func (c *rowCache) get(p catalog.PartitionID, o record.Offset) (s catalog.Segment, fresh, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pr := c.byID[p]
	if pr == nil {
		return s, false, false
	}
	i := sort.Search(len(pr.rows), func(i int) bool { return pr.rows[i].Next > o })
	if i == len(pr.rows) || pr.rows[i].Base > o {
		return s, false, false
	}
	c.order.MoveToFront(pr.place)
	return pr.rows[i].Segment, time.Since(pr.rows[i].at) < c.ttl, true
}

// put notes a row that the catalog has just shown; rows that it overlaps are gone.
func (c *rowCache) put(s catalog.Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pr := c.byID[s.Partition]
	if pr == nil {
		pr = &partitionRows{p: s.Partition}
		pr.place = c.order.PushFront(pr)
		c.byID[s.Partition] = pr
	}
	first, last := pr.overlap(s.Base, s.Next)
	c.count += 1 - (last - first)
	pr.rows = slices.Replace(pr.rows, first, last, knownRow{s, time.Now()})
	for c.count > maxRows && c.order.Len() > 1 {
		c.dropLocked(c.order.Back().Value.(*partitionRows))
	}
	if c.count > maxRows {
		c.count = 1
		pr.rows = []knownRow{{s, time.Now()}}
	}
}

// overlap is the range of indexes of the rows that overlap [base, next).
func (pr *partitionRows) overlap(base, next record.Offset) (first, last int) {
	first = sort.Search(len(pr.rows), func(i int) bool { return pr.rows[i].Next > base })
	last = first
	for last < len(pr.rows) && pr.rows[last].Base < next {
		last++
	}
	return first, last
}

// drop forgets the row that covers o.
func (c *rowCache) drop(p catalog.PartitionID, o record.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pr := c.byID[p]; pr != nil {
		first, last := pr.overlap(o, o+1)
		c.count -= last - first
		pr.rows = slices.Delete(pr.rows, first, last)
	}
}

// forget drops the rows that begin below an offset.
func (c *rowCache) forget(p catalog.PartitionID, below record.Offset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pr := c.byID[p]
	if pr == nil {
		return
	}
	_, last := pr.overlap(0, below)
	if last == len(pr.rows) {
		c.dropLocked(pr)
		return
	}
	c.count -= last
	pr.rows = slices.Delete(pr.rows, 0, last)
}

func (c *rowCache) dropLocked(pr *partitionRows) {
	c.count -= len(pr.rows)
	c.order.Remove(pr.place)
	delete(c.byID, pr.p)
}

// at returns the row that covers o, asking the catalog if the one that is known is not fresh. Errors:
// catalog.ErrNotFound; one for which catalog.Unavailable holds, if no row is known at all.
func (c *rowCache) at(ctx context.Context, t *Tier, p catalog.PartitionID, o record.Offset) (catalog.Segment, error) {
	known, fresh, found := c.get(p, o)
	if fresh {
		return known, nil
	}
	wait := t.o.CallTimeout
	if found {
		if c.isAway() {
			return known, nil
		}
		wait = min(wait, staleWait)
	}
	qctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	s, err := t.o.Catalog.SegmentAt(qctx, p, o)
	switch {
	case err == nil:
		c.put(s)
		return s, nil
	case errors.Is(err, catalog.ErrNotFound):
		c.drop(p, o)
		return s, err
	case found && ctx.Err() == nil:
		c.setAway()
		return known, nil // old rows serve on
	}
	return s, err
}

func (c *rowCache) isAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.away) < awayFor
}

func (c *rowCache) setAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = time.Now()
}

// missing explains why no row covers o: ErrBelowStart, ErrAboveTier, or ErrStorage for a hole.
func (t *Tier) missing(ctx context.Context, p catalog.PartitionID, o record.Offset) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	row, err := t.o.Catalog.Partition(ctx, p)
	switch {
	case err != nil:
		return fmt.Errorf("%w: bounds of %s: %w", ErrStorage, p, err)
	case o < row.Start:
		return fmt.Errorf("%w: offset %d of %s, start %d", ErrBelowStart, o, p, row.Start)
	case o >= row.Tiered:
		return fmt.Errorf("%w: offset %d of %s, tiered %d", ErrAboveTier, o, p, row.Tiered)
	}
	return fmt.Errorf("%w: no row covers offset %d of %s in [%d,%d)", ErrStorage, o, p, row.Start, row.Tiered)
}
