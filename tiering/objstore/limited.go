package objstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// For gives a Store whose operations take their turns in class. An operation that the store throttles is sent again, as
// the pace allows, until it passes, ctx ends, or Patience is over; then the error is ErrThrottled.
func (l *Limiter) For(class Class, store Store) Store {
	return &limited{limiter: l, class: class, store: store}
}

// limited is a Store whose operations take turns.
type limited struct {
	limiter *Limiter
	class   Class
	store   Store
}

func (s *limited) Put(ctx context.Context, key string, src Source, opts PutOptions) error {
	var started bool
	if report := opts.OnUpload; report != nil {
		opts.OnUpload = func(ctx context.Context, id string) error { started = true; return report(ctx, id) }
	}
	op := operation{name: "put", key: key, bytes: src.Size, once: func() bool { return started }}
	return s.do(ctx, op, func() error { return s.store.Put(ctx, key, src, opts) })
}

func (s *limited) ReadRange(ctx context.Context, key string, off int64, dst []byte) error {
	op := operation{name: "get", key: key, bytes: int64(len(dst))}
	return s.do(ctx, op, func() error { return s.store.ReadRange(ctx, key, off, dst) })
}

func (s *limited) Stat(ctx context.Context, key string) (info Info, err error) {
	err = s.do(ctx, operation{name: "stat", key: key}, func() error {
		info, err = s.store.Stat(ctx, key)
		return err
	})
	return info, err
}

func (s *limited) Delete(ctx context.Context, key string, uploads ...string) error {
	return s.do(ctx, operation{name: "delete", key: key}, func() error { return s.store.Delete(ctx, key, uploads...) })
}

func (s *limited) List(ctx context.Context, prefix, after string, limit int) (page []Info, err error) {
	err = s.do(ctx, operation{name: "list", key: prefix}, func() error {
		page, err = s.store.List(ctx, prefix, after, limit)
		return err
	})
	return page, err
}

// operation is what do needs to know; once says whether it must not be sent again (a multipart upload has a new id
// each time, and the caller was told of the first).
type operation struct {
	name, key string
	bytes     int64
	once      func() bool
}

const throttleBackoff = 200 * time.Millisecond

func (s *limited) do(ctx context.Context, op operation, send func() error) error {
	start, mayBeDone, attempts := time.Now(), false, 0
	var last error
	for n := 0; ; n++ {
		if err := s.limiter.acquire(ctx, s.class, op.bytes); err != nil {
			return &Error{Op: op.name, Key: op.key, Attempts: attempts, MayBeDone: mayBeDone, Err: errors.Join(err, last)}
		}
		last = send()
		throttled := errors.Is(last, ErrThrottled)
		s.limiter.release(last == nil || errors.Is(last, ErrNotFound), throttled)
		if last == nil {
			return nil
		}
		var e *Error
		if errors.As(last, &e) {
			attempts += e.Attempts
			mayBeDone = mayBeDone || e.MayBeDone
			sum := *e
			sum.Attempts, sum.MayBeDone = attempts, mayBeDone
			last = &sum
		}
		if !throttled || op.once != nil && op.once() {
			return last
		}
		// The store's word is for this operation; what the others do is the pace's business.
		wait := min(throttleBackoff<<min(n, 5), 5*time.Second)
		wait = max(RetryAfter(last), wait/2+rand.N(wait/2+1))
		if time.Since(start)+wait > s.limiter.opts.Patience || !sleepCtx(ctx, wait) {
			return last
		}
	}
}

func sleepCtx(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
