package compaction

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// lane is one partition's work.
type lane struct {
	p      catalog.PartitionID
	ctx    context.Context // ends when the partition is dropped
	cancel context.CancelFunc

	// Guarded by the queue's lock.
	policy   Policy
	due      time.Time
	earliest time.Time // no wake makes it due before, but a change of its policy does
	woken    bool
	changed  bool // its policy, since it was taken
	running  bool
	dropped  bool
	place    int // in the queue, -1 while not in it

	// What only the worker that holds the lane touches.
	failures int
	rival    *rival
	cursor   record.Offset // where a merge looks from
}

// queue hands lanes to workers when they are due. It is level-triggered: a wake makes a lane due.
type queue struct {
	mu    sync.Mutex // guards what is below
	lanes map[catalog.PartitionID]*lane
	heap  laneHeap
	poke  chan struct{}
}

func newQueue() *queue {
	return &queue{lanes: map[catalog.PartitionID]*lane{}, poke: make(chan struct{}, 1)}
}

// set adds a partition, or changes its policy. What it waited for by the policy that was, it waits for no more.
func (q *queue) set(p catalog.PartitionID, policy Policy) {
	q.mu.Lock()
	l := q.lanes[p]
	if l == nil {
		l = &lane{p: p, policy: policy, due: time.Now(), place: -1}
		l.ctx, l.cancel = context.WithCancel(context.Background())
		q.lanes[p] = l
		heap.Push(&q.heap, l)
	}
	if l.policy != policy {
		l.policy, l.changed, l.earliest = policy, true, time.Time{}
		q.wakeLocked(l)
	}
	q.mu.Unlock()
	q.signal()
}

// drop forgets a partition; work in progress is told to stop.
func (q *queue) drop(p catalog.PartitionID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[p]
	if l == nil {
		return
	}
	delete(q.lanes, p)
	l.dropped = true
	l.cancel()
	if l.place >= 0 {
		heap.Remove(&q.heap, l.place)
	}
}

func (q *queue) wake(p catalog.PartitionID) {
	q.mu.Lock()
	if l := q.lanes[p]; l != nil {
		q.wakeLocked(l)
	}
	q.mu.Unlock()
	q.signal()
}

func (q *queue) wakeLocked(l *lane) {
	l.woken = true
	if l.place >= 0 {
		l.due = later(time.Now(), l.earliest)
		heap.Fix(&q.heap, l.place)
	}
}

// take waits for a lane that is due; nil when ctx has ended.
func (q *queue) take(ctx context.Context) (*lane, Policy) {
	for {
		q.mu.Lock()
		wait := time.Hour
		if len(q.heap) > 0 {
			l := q.heap[0]
			if wait = time.Until(l.due); wait <= 0 && ctx.Err() == nil {
				heap.Pop(&q.heap)
				l.running, l.woken, l.changed = true, false, false
				policy := l.policy
				more := len(q.heap) > 0
				q.mu.Unlock()
				if more {
					q.signal() // another worker looks at the next one
				}
				return l, policy
			}
		}
		q.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-q.poke:
		case <-ctx.Done():
			timer.Stop()
			return nil, Policy{}
		}
		timer.Stop()
	}
}

// give gives a lane back, to be due at due, or when it is woken, but not before earliest unless its policy changes.
func (q *queue) give(l *lane, due, earliest time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.running = false
	if l.dropped {
		return
	}
	if l.woken {
		due = time.Now()
	}
	if l.changed {
		earliest = time.Time{}
	}
	l.earliest = earliest
	l.due = later(due, earliest)
	heap.Push(&q.heap, l)
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.poke <- struct{}{}:
	default:
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// laneHeap is a heap by due time.
type laneHeap []*lane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *laneHeap) Push(x any) {
	l := x.(*lane)
	l.place = len(*h)
	*h = append(*h, l)
}

// Pop implements heap.Interface.
func (h *laneHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.place = -1
	return l
}
