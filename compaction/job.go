package compaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/catalog"
)

// Kinds of jobs: a topic that compacts and one that only deletes are never worked on under both.
const (
	kindCompact = "compact"
	kindMerge   = "merge"
)

// callTimeout is the deadline of one call to the catalog.
const callTimeout = 15 * time.Second

// rival is a holder of a job as it was last seen.
type rival struct {
	epoch, lease int64
	since        time.Time // on this process's monotonic clock
}

// take takes the partition's job, or returns false while another holds it. A holder that is seen to stand
// still for the lease's length is replaced (R13).
func (w *Worker) take(ctx context.Context, l *lane, kind string) (catalog.Job, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var seen int64
	if l.rival != nil && time.Since(l.rival.since) >= w.o.Lease {
		seen = l.rival.lease
	}
	j, err := w.o.Catalog.TakeJob(ctx, l.p, kind, w.o.Broker, w.o.Incarnation, seen)
	if errors.Is(err, catalog.ErrHeld) {
		if r := l.rival; r == nil || r.epoch != j.Epoch || r.lease != j.Lease {
			l.rival = &rival{epoch: j.Epoch, lease: j.Lease, since: time.Now()}
		}
		return j, false, nil
	}
	if err != nil {
		return j, false, fmt.Errorf("compaction: take the job of %s: %w", l.p, err)
	}
	l.rival = nil
	return j, true, nil
}

// under does work under the job and ends the job. The work's context ends when the lease was lost, or
// could not be raised for most of its length.
func (w *Worker) under(ctx context.Context, j catalog.Job, work func(context.Context) error) error {
	wctx, cancel := context.WithCancelCause(ctx)
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		if err := w.renew(wctx, j); err != nil {
			cancel(err)
		}
	}()
	err := work(wctx)
	if lost := context.Cause(wctx); err != nil && lost != nil && ctx.Err() == nil {
		err = lost
	}
	cancel(nil)
	<-renewed
	// The inputs are live whatever has happened; intents that are left become garbage (L10).
	ectx, done := context.WithTimeout(context.WithoutCancel(ctx), min(callTimeout, 3*time.Second))
	defer done()
	if end := w.o.Catalog.EndJob(ectx, j); end != nil && !errors.Is(end, catalog.ErrFenced) {
		w.log.Warn("the job could not be ended and waits for its lease", "partition", j.Partition, "err", end)
	}
	return err
}

// renew raises the lease until ctx ends; the error says why the work must stop.
func (w *Worker) renew(ctx context.Context, j catalog.Job) error {
	tick := time.NewTicker(w.o.Lease / 5)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, w.o.Lease/5)
		_, err := w.o.Catalog.RenewJob(call, j)
		cancel()
		switch {
		case err == nil:
			last = time.Now()
		case errors.Is(err, catalog.ErrFenced):
			return err
		case time.Since(last) > w.o.Lease*3/5:
			return fmt.Errorf("compaction: the lease of %s was not raised for %v: %w", j.Partition, time.Since(last).Round(time.Millisecond), err)
		}
	}
}
