package compaction

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
)

// pass compacts a run of rows under a job.
type pass struct {
	catalog Catalog
	objects Objects
	job     catalog.Job
	policy  Policy
	memory  int64 // for marks and streams
	samples int   // see Options.Samples
	rows    []row
	opened  []Object // of rows, nil until it is needed
	cleaned func(catalog.PartitionID, record.Offset)
	done    Done
}

// Done is what a pass did.
type Done struct {
	// Read and Written are bytes of objects, digests that were read for planning included.
	Read, Written int64
	// Objects counts those that were put, Replaced those that they replace.
	Objects, Replaced int64
	// Records that went; of them tombstones, transaction markers, and those without a key.
	Records, Tombstones, Markers, Keyless int64
	// Unread are records of batches that could not be decoded and were copied (H19).
	Unread int64
}

func newPass(o *Options, j catalog.Job, policy Policy, rows []catalog.Segment, now int64) *pass {
	p := &pass{catalog: o.Catalog, objects: o.Objects, job: j, policy: policy, memory: o.Memory, samples: o.Samples, cleaned: o.Cleaned}
	for _, r := range rows {
		p.rows = append(p.rows, row{Segment: r, due: dueAt(r, policy) <= now})
	}
	p.opened = make([]Object, len(p.rows))
	return p
}

// compact is a pass by key. After an error whatever was swapped stays, and is right by itself; the rows
// that were dirty still are.
func (p *pass) compact(ctx context.Context) error {
	if err := p.index(ctx); err != nil {
		return err
	}
	if err := p.choose(ctx); err != nil {
		return err
	}
	for from := 0; from < len(p.rows); {
		m, err := p.mark(ctx, from)
		if err != nil {
			return err
		}
		if from, err = p.part(ctx, m); err != nil {
			return err
		}
	}
	return p.note(ctx)
}

// object opens row i's object, once.
func (p *pass) object(ctx context.Context, i int) (Object, error) {
	if p.opened[i] == nil {
		o, err := p.objects.Open(ctx, p.rows[i].Segment)
		if err != nil {
			return nil, err
		}
		p.opened[i] = o
	}
	return p.opened[i], nil
}

// index gives digests to the objects that were tiered while the topic did not compact (H31). Nothing goes.
func (p *pass) index(ctx context.Context) error {
	for i := range p.rows {
		o, err := p.object(ctx, i)
		if err != nil {
			return err
		}
		if _, ok := o.Digests(); ok {
			continue
		}
		if err := p.copy(ctx, i, i+1, true); err != nil {
			return err
		}
	}
	return nil
}

// part rewrites the marked rows, lowest first, and returns where the rest begins.
func (p *pass) part(ctx context.Context, m *marking) (next int, err error) {
	n := m.to - m.from
	verdicts, pieces := make([]verdict, n), make([]piece, n)
	for k := range n {
		o, err := p.object(ctx, m.from+k)
		if err != nil {
			return 0, err
		}
		keys, _ := o.Digests()
		r := p.rows[m.from+k]
		verdicts[k] = p.policy.judge(r, &m.found[k], keys, len(o.Aborted()) > 0)
		pieces[k] = piece{row: r.Segment, bytes: verdicts[k].bytes, need: verdicts[k].need}
		p.rows[m.from+k].after = verdicts[k].after
	}
	joined := 0
	for _, r := range joinRuns(pieces, p.policy) {
		at := m.from + r.from - joined
		before := len(p.rows)
		if err := p.sift(ctx, at, verdicts[r.from:r.to], m.found[r.from:r.to]); err != nil {
			return 0, err
		}
		joined += before - len(p.rows)
	}
	return m.to - joined, nil
}

// note writes what the pass has found into the rows (A6): all older records that mattered to them have
// gone by now, so the wait of what waits in them begins.
func (p *pass) note(ctx context.Context) error {
	if n := len(p.rows); n > 0 {
		p.cleaned(p.job.Partition, p.rows[n-1].Next)
	}
	ids := map[note][]catalog.SegmentID{}
	for _, r := range p.rows {
		ids[r.noted()] = append(ids[r.noted()], r.ID)
	}
	if len(ids[spotless]) > 0 {
		if err := p.catalog.MarkClean(ctx, p.job, ids[spotless], catalog.Spotless); err != nil {
			return fmt.Errorf("compaction: note clean rows of %s: %w", p.job.Partition, err)
		}
	}
	if len(ids[waiting]) == 0 {
		return nil
	}
	now, err := p.catalog.Time(ctx)
	if err == nil {
		err = p.catalog.MarkClean(ctx, p.job, ids[waiting], now.UnixMilli()+1)
	}
	if err != nil {
		return fmt.Errorf("compaction: note clean rows of %s: %w", p.job.Partition, err)
	}
	return nil
}

// errMoved: the rows are not what they were when the pass was planned.
var errMoved = errors.New("compaction: the rows have changed")

// swap puts one row in the place of [from, to).
func (p *pass) swap(ctx context.Context, from, to int, by catalog.Segment, after note) error {
	var old []catalog.SegmentID
	for _, r := range p.rows[from:to] {
		old = append(old, r.ID)
	}
	if err := p.catalog.Swap(ctx, p.job, old, []catalog.Segment{by}); err != nil {
		return fmt.Errorf("compaction: replace [%d,%d) of %s: %w", by.Base, by.Next, p.job.Partition, err)
	}
	p.objects.Replaced(by)
	live, err := p.catalog.ListSegments(ctx, p.job.Partition, by.Next-1, 1)
	if err != nil {
		return err
	}
	if len(live) == 0 || live[0].Attempt != by.Attempt {
		return fmt.Errorf("%w: [%d,%d) of %s was replaced again", errMoved, by.Base, by.Next, p.job.Partition)
	}
	p.rows = append(append(p.rows[:from:from], row{Segment: live[0], after: after}), p.rows[to:]...)
	p.opened = append(append(p.opened[:from:from], nil), p.opened[to:]...)
	p.done.Objects++
	p.done.Replaced += int64(to - from)
	p.done.Written += by.Bytes
	return nil
}
