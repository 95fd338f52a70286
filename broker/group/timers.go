package group

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// timers wakes groups at their deadlines, all with one goroutine. A group is
// in the heap once per time at which it was ever due earlier than known
// before; entries that a later look has made void are dropped when they come
// up. Heartbeats only move deadlines back, so they touch nothing here.
type timers struct {
	mu   sync.Mutex
	due  dueHeap
	wake chan struct{}
}

type dueAt struct {
	at time.Duration
	e  *entry
}

type dueHeap []dueAt

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueAt)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = dueAt{}
	*h = old[:len(old)-1]
	return x
}

// schedule is called under e.mu.
func (t *timers) schedule(e *entry) {
	at, ok := e.group.NextDeadline()
	if !ok || at >= e.scheduled {
		return
	}
	e.scheduled = at
	t.mu.Lock()
	heap.Push(&t.due, dueAt{at, e})
	first := t.due[0].e == e
	t.mu.Unlock()
	if first {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// next takes an entry that is due at now, or says how long none is.
func (t *timers) next(now time.Duration) (d dueAt, wait time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.due) == 0 {
		return dueAt{}, time.Hour, false
	}
	if wait := t.due[0].at - now; wait > 0 {
		return dueAt{}, wait, false
	}
	return heap.Pop(&t.due).(dueAt), 0, true
}

func (t *timers) run(ctx context.Context, clock func() time.Duration, fire func(d dueAt)) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		d, wait, ok := t.next(clock())
		if ok {
			fire(d)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
	}
}
