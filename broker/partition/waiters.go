package partition

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"tidemark/record"
)

// Watcher is told that a partition that it watches has moved.
type Watcher interface {
	// Wake is called by whoever moved it, an append among them: it takes no lock but its own, and does not block. It
	// is a hint: whoever is woken looks again.
	Wake()
}

// Waiter is a Watcher for a goroutine that waits. One waiter may watch many partitions.
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

// anything is the offset of a Watcher that wants to be told of any move, once.
const anything = record.Offset(-1)

// waiters is the set of watchers of one partition, each with the offset that it waits for, or anything. An append with
// nobody waiting costs one atomic load.
type waiters struct {
	n   atomic.Int32
	mu  sync.Mutex // guards set; a watcher's own lock comes after it
	set map[Watcher]record.Offset
}

func (ws *waiters) add(w Watcher, until record.Offset) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.set == nil {
		ws.set = map[Watcher]record.Offset{}
	}
	ws.set[w] = until
	ws.n.Store(int32(len(ws.set)))
}

func (ws *waiters) remove(w Watcher) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.set, w)
	ws.n.Store(int32(len(ws.set)))
}

// wake wakes all.
func (ws *waiters) wake() { ws.reached(math.MaxInt64) }

// reached wakes those who wait for no more than o: of many produce requests that wait for their acknowledgement only
// those that have it. Who waits for anything is told once, so that one who does not come back costs nothing more.
func (ws *waiters) reached(o record.Offset) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w, until := range ws.set {
		if until > o {
			continue
		}
		w.Wake()
		if until == anything {
			delete(ws.set, w)
		}
	}
	ws.n.Store(int32(len(ws.set)))
}

// Watch has w told of the next move of anything that a consumer's fetch depends on: the high watermark, start, the
// leadership, settings. The caller looks once more after it, so that nothing is missed.
func (p *Partition) Watch(w Watcher) { p.waiters.add(w, anything) }

// WatchTail is Watch for a replica's fetch, which depends on the log's end and the in-sync set too.
func (p *Partition) WatchTail(w Watcher) { p.tail.add(w, anything) }

// Unwatch removes w. A Wake that has begun may still be under way.
func (p *Partition) Unwatch(w Watcher) {
	p.waiters.remove(w)
	p.tail.remove(w)
}

// moved tells everybody: something has changed that is more than the log's growth.
func (p *Partition) moved() {
	p.waiters.wake()
	p.tail.wake()
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
