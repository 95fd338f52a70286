package tiering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"tidemark/catalog"
	"tidemark/tiering/object"
)

// idleMin is how soon a lane that found nothing is looked at again; it doubles up to Options.Poll.
const idleMin = 50 * time.Millisecond

// After restAfter looks that nobody woke and that found nothing, a lane is looked at only every restPolls polls: ten
// thousand idle partitions cost next to nothing.
const (
	restAfter = 20
	restPolls = 12
)

// uploadWorker takes lanes until ctx ends.
func (t *Tier) uploadWorker(ctx context.Context, work <-chan *lane) {
	for {
		select {
		case l := <-work:
			t.turn(ctx, l)
		case <-ctx.Done():
			return
		}
	}
}

// turn lets a lane take one step and gives it back with the time of its next one.
func (t *Tier) turn(ctx context.Context, l *lane) {
	if now := time.Now(); t.away.left(now) > 0 {
		t.sched.done(l, now, now.Add(t.away.left(now)))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	did, err := t.guarded(ctx, l)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		t.sched.done(l, now, time.Time{})
	case err != nil:
		l.stalled(now, err)
		t.m.failed(l.p)
		wait, level := backoff(t.o.RetryMin, t.o.RetryMax, l.failures), slog.LevelWarn
		if catalog.Unavailable(err) {
			var failures int
			if wait, failures = t.away.seen(now, t.o.RetryMin); failures > 1 {
				level = slog.LevelDebug // an outage is said once, not by each partition
			}
		}
		t.log.Log(ctx, level, "upload failed", "partition", l.p, "offset", int64(l.bounds().Tiered), "failures", l.failures, "retry_in", wait, "err", err)
		t.sched.done(l, now, now.Add(wait))
	case did:
		t.away.over()
		l.quiet = 0
		t.sched.done(l, now, time.Time{})
	default:
		if l.byWake {
			l.quiet = 0
		}
		l.quiet++
		most := t.o.Poll
		if l.quiet > restAfter {
			most *= restPolls
		}
		t.sched.done(l, now.Add(backoff(min(idleMin, t.o.Poll), most, l.quiet)), time.Time{})
	}
}

// backoff doubles from least to most, minus up to a quarter by chance.
func backoff(least, most time.Duration, n int) time.Duration {
	d := least
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	d = min(d, most)
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

// guarded turns a panic into a failure of this turn (A11).
func (t *Tier) guarded(ctx context.Context, l *lane) (did bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			t.m.panics.Inc()
			t.log.Error("upload panicked", "partition", l.p, "panic", p, "stack", string(debug.Stack()))
			did, err = false, fmt.Errorf("tiering: upload panicked: %v", p)
		}
	}()
	return t.advance(ctx, l)
}

// advance takes the lane's next step; did says that there may be another at once.
func (t *Tier) advance(ctx context.Context, l *lane) (did bool, err error) {
	g, ok := l.source.Leadership()
	if !ok || !t.Ready() || l.stopped && g == l.guard {
		return false, nil
	}
	if g != l.guard {
		// What an older leadership began is settled like anybody's leftovers.
		l.guard, l.stopped, l.settled, l.attempt, l.chain = g, false, false, nil, nil
	}
	if b := l.clean; b != nil {
		l.see(*b)
		l.source.Published(*b)
		l.clean, l.settled = nil, true
	}
	if l.attempt == nil && l.lost.Load() {
		l.settled = false
	}
	if !l.settled {
		if err := t.settle(ctx, l); err != nil {
			return false, t.judged(l, err)
		}
		l.settled = true
	}
	if l.attempt != nil && l.attempt.stored {
		return t.publish(ctx, l)
	}
	from := l.bounds().Tiered
	run, err := l.source.Sealed(ctx, from)
	if err != nil {
		return false, fmt.Errorf("tiering: next run of %s from %d: %w", l.p, from, err)
	}
	if run == nil {
		l.moving()
		t.m.moving(l.p)
		return false, nil
	}
	defer run.Release()
	b, err := t.look(ctx, l)
	if err != nil {
		return false, t.judged(l, err)
	}
	if b.Tiered != from {
		return true, nil // start has jumped (A2): ask for what continues it
	}
	if run.Base != b.Tiered && (run.Base > b.Start || run.Next <= b.Tiered) {
		return false, fmt.Errorf("%w: %s: run [%d,%d) does not continue tiered %d (start %d)", ErrDamaged, l.p, run.Base, run.Next, b.Tiered, b.Start)
	}
	return t.upload(ctx, l, run)
}

// look reads the partition's bounds from the catalog. A leader that finds tiered below what it has
// published itself is not fenced: it goes on from there.
func (t *Tier) look(ctx context.Context, l *lane) (catalog.Bounds, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	row, err := t.o.Catalog.Partition(ctx, l.p)
	if err != nil {
		return catalog.Bounds{}, err
	}
	if before := l.bounds(); l.see(row.Bounds) {
		// Commits were lost (H3), or this look was overtaken by a move of start, which the next one shows.
		// The broker's own record says what was published since; what is not in it is uploaded again: R5 has kept it.
		if t.o.WentBack != nil {
			t.o.WentBack()
		}
		t.log.Error("tiered went back in the catalog", "partition", l.p, "from", int64(before.Tiered), "to", int64(row.Tiered))
		l.source.Published(row.Bounds)
	}
	return row.Bounds, nil
}

// judged sorts the catalog's answers: a leadership that is over, or a topic that is gone, stops the
// lane without a failure; whatever concerns only the attempt drops it, and its intent is settled before
// the next one.
func (t *Tier) judged(l *lane, err error) error {
	switch {
	case errors.Is(err, catalog.ErrFenced), errors.Is(err, catalog.ErrUnknownTopic), errors.Is(err, catalog.ErrNotFound):
		t.log.Info("uploads stop", "partition", l.p, "epoch", int32(l.guard.Epoch), "err", err)
		l.stopped, l.attempt = true, nil
		return nil
	case errors.Is(err, catalog.ErrIntentGone), errors.Is(err, catalog.ErrGarbage), errors.Is(err, catalog.ErrNotContiguous):
		l.abandon()
	}
	return err
}

// abandon drops the attempt; its intent, if it is still there, is settled before the next one.
func (l *lane) abandon() { l.attempt, l.settled = nil, false }

// upload builds the run's object, puts it and publishes it.
func (t *Tier) upload(ctx context.Context, l *lane, run *Run) (did bool, err error) {
	if a := l.attempt; a == nil || a.base != run.Base || a.next != run.Next {
		if a != nil {
			l.abandon()
			return true, nil
		}
		id := object.NewAttempt()
		l.attempt = &attempt{
			id: id, base: run.Base, next: run.Next,
			key: object.Key(object.ID(t.o.Cluster), object.ID(l.p.Topic), l.p.Partition, run.Base, id),
		}
	}
	begin := time.Now()
	built, err := t.build(ctx, l, run)
	if err != nil {
		return false, err
	}
	a := l.attempt
	if a.sum != ([32]byte{}) && a.sum != built.SHA256 {
		// A key stands for one content (R3).
		l.abandon()
		return false, fmt.Errorf("tiering: %s: the bytes of [%d,%d) changed between two attempts", l.p, run.Base, run.Next)
	}
	a.sum = built.SHA256
	if err := t.intend(ctx, l, built); err != nil {
		return false, t.judged(l, err)
	}
	if err := t.put(ctx, l, built); err != nil {
		return false, t.judged(l, err)
	}
	if err := t.readBack(ctx, a.key, built); err != nil {
		if errors.Is(err, errBadStore) {
			l.abandon()
		}
		return false, err
	}
	a.segment, a.stored = rowOf(&built.Footer, built.SHA256), true
	a.after = &chain{next: built.Next, epochs: built.Epochs, producers: built.Producers}
	t.m.uploadSeconds.Observe(time.Since(begin).Seconds())
	return t.publish(ctx, l)
}

// intend puts the intent row, before anything is in the bucket (R4).
func (t *Tier) intend(ctx context.Context, l *lane, b *object.Built) error {
	ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	return t.o.Catalog.PutIntent(ctx, catalog.Intent{
		Attempt: l.attempt.id, Partition: l.p, Base: b.Base, Next: b.Next, Key: l.attempt.key, Guard: l.guard,
	})
}

// publish makes the stored attempt live. An unclear outcome keeps the attempt: the same call again is
// answered as the first would have been (R9, A16).
func (t *Tier) publish(ctx context.Context, l *lane) (did bool, err error) {
	a := l.attempt
	if !a.noted {
		if err := t.note(catalog.Publication{Segment: a.segment}); err != nil {
			return false, fmt.Errorf("publish [%d,%d) of %s: %w", a.segment.Base, a.segment.Next, l.p, err)
		}
		a.noted = true
	}
	pctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
	defer cancel()
	b, err := t.o.Catalog.Publish(pctx, l.guard, a.segment)
	if err != nil {
		return false, t.judged(l, fmt.Errorf("publish [%d,%d) of %s: %w", a.segment.Base, a.segment.Next, l.p, err))
	}
	l.attempt = nil
	l.chain = a.after
	t.announce(l, b, a.segment)
	return true, nil
}

// announce tells of a publish: to the row cache at once (R8), to the source, to the numbers.
func (t *Tier) announce(l *lane, b catalog.Bounds, s catalog.Segment) {
	l.see(b)
	t.rows.put(s)
	l.published(s.Bytes)
	l.moving()
	t.m.published(l.p, s.Bytes)
	l.source.Published(b)
	t.log.Debug("published", "partition", l.p, "base", int64(s.Base), "next", int64(s.Next), "bytes", s.Bytes, "key", s.Key)
}
