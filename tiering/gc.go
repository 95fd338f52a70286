package tiering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
)

const (
	// collectLimit bounds the objects that one round deletes.
	collectLimit = 1000
	// collectWorkers is how many DELETEs are in flight.
	collectWorkers = 4
	// purgeLimit bounds the rows of one step of PurgeStep, purgeSteps the steps of one round.
	purgeLimit, purgeSteps = 500, 20
	// refusalMost is how many times RetryMax the wait for a key that fails again and again may grow to.
	refusalMost = 20
	// maxRefused bounds the keys that are remembered as failing.
	maxRefused = 10_000
)

// refusals remembers the keys whose DELETE failed, so that they are retried less and less often and
// take no place from others (D13).
type refusals struct {
	mu   sync.Mutex // guards keys
	keys map[string]refusal
}

type refusal struct {
	times int
	next  time.Time
}

func (r *refusals) wait(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.Before(r.keys[key].next)
}

func (r *refusals) failed(key string, now time.Time, least, most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.keys[key]
	if !ok && len(r.keys) >= maxRefused {
		return
	}
	f.times++
	f.next = now.Add(backoff(least, most, f.times))
	if r.keys == nil {
		r.keys = make(map[string]refusal)
	}
	r.keys[key] = f
}

func (r *refusals) done(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, key)
}

func (r *refusals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

// collectLoop removes what is due until ctx ends.
func (t *Tier) collectLoop(ctx context.Context) {
	tick := time.NewTicker(t.o.CollectEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !t.Ready() || t.o.MayCollect != nil && !t.o.MayCollect() {
			continue
		}
		if _, err := t.Collect(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("removal of objects is incomplete and will be repeated", "err", err)
		}
	}
}

// Collect is one round of removal: it turns a bounded number of rows of deleted topics into garbage,
// and sends the DELETEs that are due, each after reading its garbage row again (R8). It returns how
// many were acknowledged. One that fails stops no other (D13); the error names the first.
func (t *Tier) Collect(ctx context.Context) (deleted int, err error) {
	purgeErr := t.purge(ctx)
	qctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	due, err := t.o.Catalog.DueGarbage(qctx, t.o.Grace, t.o.Again, collectLimit+t.refused.count())
	if err != nil {
		return 0, errors.Join(purgeErr, fmt.Errorf("tiering: due garbage: %w", err))
	}
	var (
		g     errgroup.Group
		mu    sync.Mutex // guards deleted and first
		first error
	)
	g.SetLimit(collectWorkers)
	for _, row := range due {
		if ctx.Err() != nil {
			break
		}
		if t.refused.wait(row.Key, time.Now()) {
			continue
		}
		g.Go(func() error {
			did, err := t.remove(ctx, row)
			mu.Lock()
			defer mu.Unlock()
			if did {
				deleted++
			}
			if first == nil {
				first = err
			}
			return nil
		})
	}
	return deleted, errors.Join(purgeErr, g.Wait(), first)
}

func (t *Tier) purge(ctx context.Context) error {
	for range purgeSteps {
		sctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
		more, err := t.o.Catalog.PurgeStep(sctx, purgeLimit)
		cancel()
		if err != nil {
			return fmt.Errorf("tiering: purge deleted topics: %w", err)
		}
		if !more {
			break
		}
	}
	return nil
}

// remove deletes one object, and ends a multipart upload that was left under its key.
func (t *Tier) remove(ctx context.Context, row catalog.GarbageRow) (did bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	defer func() {
		if err != nil && ctx.Err() != context.Canceled {
			t.refused.failed(row.Key, time.Now(), t.o.RetryMin, refusalMost*t.o.RetryMax)
			t.m.deleteFailed.Inc()
		}
	}()
	is, err := t.o.Catalog.GarbageIs(ctx, row.Key)
	if err != nil || !is {
		return false, err
	}
	var uploads []string
	if row.UploadID != "" {
		uploads = append(uploads, row.UploadID)
	}
	if err := t.gcStore.Delete(ctx, row.Key, uploads...); err != nil {
		return false, err
	}
	if err := t.o.Catalog.Deleted(ctx, row.Key); err != nil {
		return false, err
	}
	t.refused.done(row.Key)
	t.m.deleted.Inc()
	return true, nil
}
