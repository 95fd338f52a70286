package cache

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"
)

// TailOptions of a Tails. Zero values are replaced by the defaults in parentheses.
type TailOptions struct {
	// MaxBytes bounds the sum of the values' sizes, as their loads report them (64 MiB).
	MaxBytes int64
	// MaxLoads bounds the loads that run at once (16).
	MaxLoads int
	// MaxQueued bounds the loads that run or wait; more are ErrBusy (4096).
	MaxQueued int
	// Timeout bounds one load, from its turn on (30 s).
	Timeout time.Duration
	// Metrics counts; nil counts nowhere.
	Metrics *Metrics
}

// Tails keeps parsed values in memory, the longest idle going first. Values are immutable and shared: whoever has one
// may keep it, evicted or not. Loads are single-flight and the cache's own, as in Cache. Safe for concurrent use.
type Tails[K comparable, V any] struct {
	opts   TailOptions
	ctx    context.Context
	cancel context.CancelFunc
	slots  chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	values map[K]*list.Element // of *tail[K, V]
	lru    *list.List          // longest idle first
	loads  map[K]*tailLoad[V]
	used   int64
	closed bool
}

type tail[K comparable, V any] struct {
	key   K
	value V
	size  int64
}

// tailLoad is one load; value and err are set before done is closed.
type tailLoad[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// NewTails makes an empty one.
func NewTails[K comparable, V any](opts TailOptions) *Tails[K, V] {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 64 << 20
	}
	if opts.MaxLoads == 0 {
		opts.MaxLoads = 16
	}
	if opts.MaxQueued == 0 {
		opts.MaxQueued = 4096
	}
	setDefault(&opts.Timeout, 30*time.Second)
	if opts.Metrics == nil {
		opts.Metrics = NewMetrics(nil)
	}
	t := &Tails[K, V]{opts: opts, slots: make(chan struct{}, opts.MaxLoads), values: map[K]*list.Element{},
		lru: list.New(), loads: map[K]*tailLoad[V]{}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

// Close ends all loads and waits for them. More calls do nothing.
func (t *Tails[K, V]) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.wg.Wait()
	return nil
}

// Get gives the value of key; load makes it and says its size in bytes. load must not depend on the caller. If ctx ends
// first Get returns its error and the load goes on.
func (t *Tails[K, V]) Get(ctx context.Context, key K, load func(context.Context) (V, int64, error)) (V, error) {
	var none V
	t.mu.Lock()
	if v, ok := t.findLocked(key); ok {
		t.mu.Unlock()
		t.opts.Metrics.tailHits.Inc()
		return v, nil
	}
	l := t.loads[key]
	switch {
	case t.closed:
		t.mu.Unlock()
		return none, ErrClosed
	case l != nil:
		t.opts.Metrics.tailIn.Inc()
	case len(t.loads) >= t.opts.MaxQueued:
		t.mu.Unlock()
		return none, fmt.Errorf("%w: %d tails", ErrBusy, t.opts.MaxQueued)
	default:
		t.opts.Metrics.tailMisses.Inc()
		l = &tailLoad[V]{done: make(chan struct{})}
		t.loads[key] = l
		t.wg.Go(func() { t.run(key, l, load) })
	}
	t.mu.Unlock()
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// TryGet gives the value of key if it is here now.
func (t *Tails[K, V]) TryGet(key K) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.findLocked(key)
}

// Forget drops the value of key, if it is here.
func (t *Tails[K, V]) Forget(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if el := t.values[key]; el != nil {
		t.removeLocked(el)
	}
}

func (t *Tails[K, V]) run(key K, l *tailLoad[V], load func(context.Context) (V, int64, error)) {
	var size int64
	select {
	case t.slots <- struct{}{}:
		l.value, size, l.err = t.guarded(load)
		<-t.slots
	case <-t.ctx.Done():
		l.err = ErrClosed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.loads, key)
	if l.err == nil && size <= t.opts.MaxBytes {
		t.values[key] = t.lru.PushBack(&tail[K, V]{key: key, value: l.value, size: size})
		t.used += size
		for t.used > t.opts.MaxBytes {
			t.removeLocked(t.lru.Front())
		}
	}
	close(l.done)
}

// guarded runs load under its deadline; a panic in it fails this load only.
func (t *Tails[K, V]) guarded(load func(context.Context) (V, int64, error)) (v V, size int64, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.opts.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cache: load of a tail: panic: %v", p)
		}
	}()
	return load(ctx)
}

func (t *Tails[K, V]) findLocked(key K) (V, bool) {
	el := t.values[key]
	if el == nil {
		var none V
		return none, false
	}
	t.lru.MoveToBack(el)
	return el.Value.(*tail[K, V]).value, true
}

func (t *Tails[K, V]) removeLocked(el *list.Element) {
	v := t.lru.Remove(el).(*tail[K, V])
	delete(t.values, v.key)
	t.used -= v.size
}
