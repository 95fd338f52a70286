package tiering

import (
	"context"
	"io"
	"sync"
	"time"
)

// pace bounds the bytes per second that all uploads together read.
type pace struct {
	rate int64 // 0: unbounded

	mu   sync.Mutex // guards free
	free time.Time  // when the bandwidth given out so far is used up
}

func newPace(rate int64) *pace { return &pace{rate: rate} }

// reader paces r. Its reads fail when ctx ends, so that an upload that was told to stop does.
func (p *pace) reader(ctx context.Context, r io.ReaderAt) io.ReaderAt {
	return pacedReader{ctx, r, p}
}

// take waits for n bytes' worth of bandwidth.
func (p *pace) take(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	wait := p.free.Sub(now)
	p.free = later(now, p.free).Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	if wait <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type pacedReader struct {
	ctx  context.Context
	r    io.ReaderAt
	pace *pace
}

func (r pacedReader) ReadAt(b []byte, off int64) (int, error) {
	if err := r.pace.take(r.ctx, len(b)); err != nil {
		return 0, err
	}
	return r.r.ReadAt(b, off)
}
