package tiering

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// scheduler gives lanes to workers when they are due, the longest due first, and never one lane to
// two workers. It is level-triggered: a wake only makes a lane due.
type scheduler struct {
	mu    sync.Mutex // guards the heap and the scheduling fields of every lane
	queue laneQueue
	// poke wakes the dispatcher; it holds at most one token.
	poke chan struct{}
}

func newScheduler() *scheduler { return &scheduler{poke: make(chan struct{}, 1)} }

// dispatch hands out due lanes until ctx ends.
func (s *scheduler) dispatch(ctx context.Context, work chan<- *lane) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l, wait := s.pop(time.Now())
		if l != nil {
			select {
			case work <- l:
				continue
			case <-ctx.Done():
				s.done(l, time.Now(), time.Time{})
				return
			}
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-s.poke:
		case <-ctx.Done():
			return
		}
	}
}

// pop takes the first lane that is due, or says how long to wait.
func (s *scheduler) pop(now time.Time) (*lane, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		return nil, time.Hour
	}
	l := s.queue[0]
	if wait := l.due.Sub(now); wait > 0 {
		return nil, wait
	}
	heap.Pop(&s.queue)
	l.running = true
	l.byWake, l.woken = l.woken, false
	return l, 0
}

func (s *scheduler) add(l *lane) {
	s.mu.Lock()
	l.due = time.Now()
	heap.Push(&s.queue, l)
	s.mu.Unlock()
	s.signal()
}

// remove takes a lane out for good and returns when no worker has it.
func (s *scheduler) remove(l *lane) {
	s.mu.Lock()
	l.removed = true
	if l.place >= 0 {
		heap.Remove(&s.queue, l.place)
	}
	running := l.running
	s.mu.Unlock()
	if running {
		<-l.idle
	}
}

// wake makes a lane due, but not before the end of its back-off.
func (s *scheduler) wake(l *lane) {
	s.mu.Lock()
	l.woken = true
	if l.place >= 0 && !l.running {
		l.due = later(time.Now(), l.notBefore)
		heap.Fix(&s.queue, l.place)
	}
	s.mu.Unlock()
	s.signal()
}

// done gives a lane back: due at due, or at once if it was woken meanwhile, never before notBefore.
func (s *scheduler) done(l *lane, due, notBefore time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.running = false
	if l.removed {
		close(l.idle)
		return
	}
	if l.woken {
		due = time.Now()
	}
	l.notBefore = notBefore
	l.due = later(due, notBefore)
	heap.Push(&s.queue, l)
	s.signal()
}

func (s *scheduler) signal() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// laneQueue is a heap by due time.
type laneQueue []*lane

func (q laneQueue) Len() int           { return len(q) }
func (q laneQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q laneQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *laneQueue) Push(x any) {
	l := x.(*lane)
	l.place = len(*q)
	*q = append(*q, l)
}

// Pop implements heap.Interface.
func (q *laneQueue) Pop() any {
	old := *q
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	l.place = -1
	return l
}
