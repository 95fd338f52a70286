package partition

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"tidemark/record"
)

// Waiter is woken when a partition that it watches has moved: the high watermark, start, or the
// leadership. One waiter may watch many partitions. It is a hint: whoever is woken looks again.
type Waiter struct{ c chan struct{} }

// NewWaiter returns a waiter that watches nothing yet.
func NewWaiter() *Waiter { return &Waiter{c: make(chan struct{}, 1)} }

// C delivers wake-ups; several may have become one.
func (w *Waiter) C() <-chan struct{} { return w.c }

// Wake wakes it.
func (w *Waiter) Wake() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// waiters is the set of waiters of one partition, each with the offset that it waits for, 0 if for anything. An append
// with nobody waiting costs one atomic load.
type waiters struct {
	n   atomic.Int32
	mu  sync.Mutex
	set map[*Waiter]record.Offset
}

func (ws *waiters) add(w *Waiter, until record.Offset) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.set == nil {
		ws.set = map[*Waiter]record.Offset{}
	}
	ws.set[w] = until
	ws.n.Store(int32(len(ws.set)))
}

func (ws *waiters) remove(w *Waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.set, w)
	ws.n.Store(int32(len(ws.set)))
}

// wake wakes all.
func (ws *waiters) wake() { ws.reached(math.MaxInt64) }

// reached wakes those who wait for no more than o: of many produce requests that wait for their acknowledgement only
// those that have it.
func (ws *waiters) reached(o record.Offset) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w, until := range ws.set {
		if until <= o {
			w.Wake()
		}
	}
}

// Watch adds w; the caller looks once more after it, so that nothing is missed, and then waits.
func (p *Partition) Watch(w *Waiter) { p.waiters.add(w, 0) }

// WatchTail adds w for the log's end too, as a replica's fetch waits for it.
func (p *Partition) WatchTail(w *Waiter) { p.tail.add(w, 0) }

// Unwatch removes w.
func (p *Partition) Unwatch(w *Waiter) {
	p.waiters.remove(w)
	p.tail.remove(w)
}

// Ack is the acknowledgement that an acks=all produce waits for. It belongs to the leader epoch of its
// append (H11).
type Ack struct {
	p      *Partition
	lead   *leadership
	offset record.Offset // hw must reach it
}

// Done reports whether the high watermark has passed the records; ErrNotLeader if the leadership of the append
// has ended first, ErrNotEnoughAfterAppend if the in-sync set has become too small.
func (a Ack) Done() (bool, error) {
	select {
	case <-a.lead.ended:
		return false, fmt.Errorf("%w: leadership ended before the records were replicated", ErrNotLeader)
	default:
	}
	switch {
	case record.Offset(a.p.hw.Load()) >= a.offset:
		return true, nil
	case a.lead.doubted():
		return false, fmt.Errorf("%w: another broker leads a higher epoch", ErrNotLeader)
	case !a.lead.enough():
		return false, fmt.Errorf("%w: %d in sync, %d wanted", ErrNotEnoughAfterAppend, a.lead.inSync.Load(), a.lead.minISR.Load())
	}
	return false, nil
}

// Wait returns nil once the records are acknowledged, an error of Done, or the context's error.
func (a Ack) Wait(ctx context.Context) error {
	w := NewWaiter()
	a.p.waiters.add(w, a.offset)
	defer a.p.waiters.remove(w)
	for {
		if done, err := a.Done(); done || err != nil {
			return err
		}
		select {
		case <-w.C():
		case <-a.lead.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
