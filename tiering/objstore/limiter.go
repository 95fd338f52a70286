package objstore

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Class says how urgent an operation is. Whatever waits goes by class, then by age.
type Class int

// The classes, the most urgent first.
const (
	ColdRead Class = iota
	Upload
	Compaction
	GC
)

// Classes are all classes, the most urgent first.
var Classes = [...]Class{ColdRead, Upload, Compaction, GC}

func (c Class) String() string { return [...]string{"cold_read", "upload", "compaction", "gc"}[c] }

// LimiterOptions; zero values are replaced by the defaults in parentheses.
type LimiterOptions struct {
	// MaxInFlight bounds the operations under way (64). Uploads leave a quarter of it to cold reads, compaction half,
	// GC three quarters.
	MaxInFlight int
	// MinRate is the rate, per second, that throttling never goes below (1).
	MinRate float64
	// Patience is how long one operation is sent again because of throttling (1 min).
	Patience time.Duration
	// BytesPerSecond bounds what a class moves; 0 is no bound (none).
	BytesPerSecond [len(Classes)]int64
	// Metrics counts; nil counts nowhere.
	Metrics *Metrics
}

// Limiter bounds and orders all operations on one bucket: make one per bucket and take a Store per class from it.
type Limiter struct {
	opts LimiterOptions

	mu       sync.Mutex
	waiting  [len(Classes)]*list.List // of *waiter
	inFlight int
	pace     pace
	bytesAt  [len(Classes)]time.Time // when the class's bytes so far are paid for
	timer    *time.Timer
}

// waiter is one operation that waits for its turn.
type waiter struct {
	class   Class
	bytes   int64
	ready   chan struct{} // closed when granted
	granted bool
	place   *list.Element
}

// NewLimiter makes a Limiter. It needs no closing.
func NewLimiter(opts LimiterOptions) *Limiter {
	if opts.MaxInFlight == 0 {
		opts.MaxInFlight = 64
	}
	if opts.MinRate == 0 {
		opts.MinRate = 1
	}
	if opts.Patience == 0 {
		opts.Patience = time.Minute
	}
	if opts.Metrics == nil {
		opts.Metrics = NewMetrics(nil)
	}
	l := &Limiter{opts: opts, pace: pace{min: opts.MinRate}}
	for i := range l.waiting {
		l.waiting[i] = list.New()
	}
	return l
}

// acquire waits for a turn.
func (l *Limiter) acquire(ctx context.Context, class Class, bytes int64) error {
	w := &waiter{class: class, bytes: bytes, ready: make(chan struct{})}
	l.mu.Lock()
	w.place = l.waiting[class].PushBack(w)
	l.pumpLocked()
	l.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.granted {
		l.inFlight--
	} else {
		l.waiting[class].Remove(w.place)
	}
	l.pumpLocked()
	return ctx.Err()
}

// release ends a turn. served and throttled say what the store did; neither says nothing about its load.
func (l *Limiter) release(served, throttled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	now := time.Now()
	switch {
	case throttled:
		l.pace.throttled(now)
	case served:
		l.pace.took(now)
	}
	l.opts.Metrics.rate.Set(l.pace.limit)
	l.pumpLocked()
}

// share is how much of MaxInFlight must be free of others for a class to start.
func (l *Limiter) share(c Class) int {
	n := l.opts.MaxInFlight
	return max(1, [...]int{n, n * 3 / 4, n / 2, n / 4}[c])
}

// pumpLocked grants turns to whoever may go now, and sets the timer for whoever waits only for time to pass.
func (l *Limiter) pumpLocked() {
	now := time.Now()
	var wait time.Duration
	for {
		w, d := l.nextLocked(now)
		wait = d
		if w == nil {
			break
		}
		l.waiting[w.class].Remove(w.place)
		l.inFlight++
		l.pace.sent(now)
		if bps := l.opts.BytesPerSecond[w.class]; bps > 0 {
			if l.bytesAt[w.class].Before(now) {
				l.bytesAt[w.class] = now
			}
			l.bytesAt[w.class] = l.bytesAt[w.class].Add(time.Duration(float64(w.bytes) / float64(bps) * float64(time.Second)))
		}
		w.granted = true
		close(w.ready)
	}
	for _, c := range Classes {
		l.opts.Metrics.waiting.WithLabelValues(c.String()).Set(float64(l.waiting[c].Len()))
	}
	l.opts.Metrics.inFlight.Set(float64(l.inFlight))
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if wait > 0 {
		l.timer = time.AfterFunc(wait, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.pumpLocked()
		})
	}
}

// nextLocked is the waiter that may go now, or nil and how long it takes until one may by time alone (0: it does not
// depend on time).
func (l *Limiter) nextLocked(now time.Time) (*waiter, time.Duration) {
	var wait time.Duration
	for _, c := range Classes {
		front := l.waiting[c].Front()
		if front == nil || l.inFlight >= l.share(c) {
			continue
		}
		// A class waits for its bytes alone; the others need not.
		if d := l.bytesAt[c].Sub(now); d > 0 {
			if wait == 0 || d < wait {
				wait = d
			}
			continue
		}
		if d := l.pace.delay(now); d > 0 {
			return nil, d // and nobody less urgent overtakes
		}
		return front.Value.(*waiter), 0
	}
	return nil, wait
}
