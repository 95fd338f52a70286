package replay

import (
	"context"
	"sync"
	"time"
)

// pacer bounds bytes a second over all partitions; the zero rate bounds nothing.
type pacer struct {
	rate int64

	mu   sync.Mutex // guards paid
	paid time.Time  // when what was taken so far is paid for
}

// step is how much to read at once, so that a slow pace is an even one.
func (p *pacer) step() int64 {
	if p.rate <= 0 {
		return fetchBytes
	}
	return min(fetchBytes, max(p.rate/20, 16<<10))
}

// wait takes n bytes and returns when it is their time.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	d := p.paid.Sub(now)
	p.mu.Unlock()
	return pause(ctx, d)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
