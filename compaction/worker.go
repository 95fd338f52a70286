package compaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/record"
)

// Worker compacts and merges the partitions that it is told of.
type Worker struct {
	o   Options
	log *slog.Logger
	m   *metrics
	q   *queue
	// once has the lanes of Once, by partition.
	once sync.Map
}

// NewWorker checks the options. Nothing happens before Run.
func NewWorker(o Options) (*Worker, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("compaction: register metrics: %w", err)
	}
	return &Worker{o: o, log: o.Logger.With("part", "compaction"), m: m, q: newQueue()}, nil
}

// Set begins work on a partition, or changes its policy. It does not block.
func (w *Worker) Set(p catalog.PartitionID, policy Policy) { w.q.set(p, policy) }

// Drop ends work on a partition; what is in progress stops at its next step. It does not block.
func (w *Worker) Drop(p catalog.PartitionID) {
	w.q.drop(p)
	w.m.stalled.DeleteLabelValues(p.String())
}

// Wake says that the partition's rows have changed. It does not block and may be called often.
func (w *Worker) Wake(p catalog.PartitionID) { w.q.wake(p) }

// Run works until ctx ends; it returns nil then, when all of its goroutines have ended. A job in progress
// is abandoned: its inputs stay live.
func (w *Worker) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range w.o.Workers {
		g.Go(func() error {
			for {
				l, policy := w.q.take(ctx)
				if l == nil {
					return nil
				}
				w.turn(ctx, l, policy)
			}
		})
	}
	return g.Wait()
}

// Once looks at a partition now and does what there is to do; again is when to look next if nothing
// changes. It is for tools that are not Run.
func (w *Worker) Once(ctx context.Context, p catalog.PartitionID, policy Policy) (again time.Duration, err error) {
	l, _ := w.once.LoadOrStore(p, &lane{p: p})
	return w.guarded(ctx, l.(*lane), policy)
}

// turn looks at a partition, does what there is to do and gives it back.
func (w *Worker) turn(ctx context.Context, l *lane, policy Policy) {
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	again, err := w.guarded(lctx, l, policy)
	now, pause := time.Now(), w.o.Pause
	if !policy.Compact && again > 0 {
		pause = w.o.MergePause // rows are joined when they are old: no publish is in a hurry
	}
	switch {
	case lctx.Err() != nil:
	case err != nil && passing(err):
		w.log.Debug("the rows or the job have changed; looking again", "partition", l.p, "err", err)
		again = 0
	case err != nil:
		l.failures++
		w.m.failures.Inc()
		w.m.stalled.WithLabelValues(l.p.String()).Set(1)
		again = backoff(w.o.Pause, w.o.RetryMax, l.failures)
		pause = again
		w.log.Warn("compaction failed", "partition", l.p, "failures", l.failures, "retry_in", again, "err", err)
	default:
		l.failures = 0
		w.m.stalled.DeleteLabelValues(l.p.String())
	}
	w.q.give(l, now.Add(again), now.Add(pause))
}

// passing reports whether an error only says that the plan is old.
func passing(err error) bool {
	for _, is := range []error{catalog.ErrFenced, catalog.ErrNotContiguous, catalog.ErrIntentGone, catalog.ErrUnknownTopic, catalog.ErrNotFound, errMoved} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

func backoff(least, most time.Duration, n int) time.Duration {
	for ; n > 1 && least < most; n-- {
		least *= 2
	}
	return min(least, most)
}

// guarded turns a panic into a failure of this turn (A11).
func (w *Worker) guarded(ctx context.Context, l *lane, policy Policy) (again time.Duration, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.m.panics.Inc()
			w.log.Error("compaction panicked", "partition", l.p, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("compaction: panicked: %v", p)
		}
	}()
	if policy.Compact {
		return w.compact(ctx, l, policy)
	}
	return w.merge(ctx, l, policy)
}

// idle is the longest time for which a partition is not looked at.
const idle = time.Hour

// compact plans by all rows and does a pass, if one is to be done.
func (w *Worker) compact(ctx context.Context, l *lane, policy Policy) (again time.Duration, err error) {
	rows, plan, now, err := w.plan(ctx, l.p, policy)
	if err != nil {
		return 0, err
	}
	if plan.Rows == 0 {
		if plan.Again == Never {
			return idle, nil
		}
		return min(time.Duration(min(plan.Again-now, int64(idle/time.Millisecond)))*time.Millisecond, idle), nil
	}
	if w.o.WatchOnly {
		return 0, nil
	}
	j, ok, err := w.take(ctx, l, kindCompact)
	if err != nil || !ok {
		return 0, err
	}
	begin := time.Now()
	err = w.under(ctx, j, func(ctx context.Context) error {
		// What another worker did before the job was ours is seen now.
		if rows, plan, now, err = w.plan(ctx, l.p, policy); err != nil || plan.Rows == 0 {
			return err
		}
		p := newPass(&w.o, j, policy, rows[:plan.Rows], now)
		err := p.compact(ctx)
		w.finished(p, plan.Why, time.Since(begin), err)
		return err
	})
	return 0, err
}

// merge joins small neighbours from the lane's cursor on.
func (w *Worker) merge(ctx context.Context, l *lane, policy Policy) (again time.Duration, err error) {
	if w.o.WatchOnly {
		return idle, nil
	}
	rows, err := w.list(ctx, l.p, l.cursor, pageRows)
	if err != nil {
		return 0, err
	}
	now, err := w.now(ctx)
	if err != nil {
		return 0, err
	}
	full, again := len(rows) == pageRows, idle
	for i, r := range rows {
		if after(r.AppendTime, w.o.MergeAge.Milliseconds()) > now {
			rows, full, again = rows[:i], false, w.o.MergeAge
			break
		}
	}
	groups, next := PlanMerge(rows, policy)
	if len(groups) == 0 {
		if full {
			// There is another page; the last row goes along, in case it can be joined with it.
			l.cursor = max(next, rows[len(rows)-1].Base)
			return 0, nil
		}
		if len(rows) > 0 {
			l.cursor = next
		}
		return again, nil
	}
	j, ok, err := w.take(ctx, l, kindMerge)
	if err != nil || !ok {
		return 0, err
	}
	begin := time.Now()
	return 0, w.under(ctx, j, func(ctx context.Context) error {
		for _, g := range groups {
			p := newPass(&w.o, j, policy, g, 0)
			err := p.join(ctx)
			w.finished(p, "small neighbours", time.Since(begin), err)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// join makes one object of all rows.
func (p *pass) join(ctx context.Context) error {
	for i := range p.rows {
		if _, err := p.object(ctx, i); err != nil {
			return err
		}
	}
	return p.copy(ctx, 0, len(p.rows), false)
}

// pageRows is how many rows one look-up lists.
const pageRows = 1000

// plan reads all rows and the time, and decides.
func (w *Worker) plan(ctx context.Context, p catalog.PartitionID, policy Policy) (rows []catalog.Segment, plan Plan, now int64, err error) {
	for from := record.Offset(0); ; {
		page, err := w.list(ctx, p, from, pageRows)
		if err != nil {
			return nil, plan, 0, err
		}
		rows = append(rows, page...)
		if len(page) < pageRows {
			break
		}
		from = page[len(page)-1].Next
	}
	clean := record.Offset(0)
	for _, r := range rows {
		if r.CleanSince > 0 {
			clean = r.Next
		}
	}
	w.o.Cleaned(p, clean)
	if now, err = w.now(ctx); err != nil {
		return nil, plan, 0, err
	}
	return rows, PlanPass(rows, policy, now), now, nil
}

// now is the database's time, ms.
func (w *Worker) now(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	t, err := w.o.Catalog.Time(ctx)
	if err != nil {
		return 0, fmt.Errorf("compaction: the catalog's time: %w", err)
	}
	return t.UnixMilli(), nil
}

func (w *Worker) list(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := w.o.Catalog.ListSegments(ctx, p, from, limit)
	if err != nil {
		return nil, fmt.Errorf("compaction: rows of %s from %d: %w", p, from, err)
	}
	return rows, nil
}

// finished counts a pass.
func (w *Worker) finished(p *pass, why string, took time.Duration, err error) {
	w.m.count(&p.done, err == nil)
	if err == nil && p.done.Objects > 0 {
		w.log.Info("compacted", "partition", p.job.Partition, "why", why, "objects", p.done.Replaced, "into", p.done.Objects,
			"records", p.done.Records, "tombstones", p.done.Tombstones, "read", p.done.Read, "written", p.done.Written, "took", took.Round(time.Millisecond))
	}
}
