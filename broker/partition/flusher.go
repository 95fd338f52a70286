package partition

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/hotlog"
)

// flushesAtOnce bounds the logs that are synced at the same time because flush.ms is over.
const flushesAtOnce = 8

// flusher syncs the logs whose oldest unsynced append is flush.ms old. It is one goroutine and one queue for all
// partitions; those without flush.ms, or with nothing to sync, are not in it.
type flusher struct {
	wake chan struct{} // the first of the queue is another; of capacity 1

	mu    sync.Mutex // guards queue; a leaf
	queue flushQueue
}

func newFlusher() *flusher { return &flusher{wake: make(chan struct{}, 1)} }

// flushAt is when a log is to be looked at, in monotonic nanoseconds.
type flushAt struct {
	at int64
	p  *Partition
}

// flushQueue is a heap, the next one first.
type flushQueue []flushAt

func (q flushQueue) Len() int           { return len(q) }
func (q flushQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q flushQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *flushQueue) Push(x any)        { *q = append(*q, x.(flushAt)) }
func (q *flushQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// flushLater has the log synced when flush.ms is over, if it has something to sync. It is called after each append: where
// the log waits already, or has no flush.ms, it costs a few loads.
func (p *Partition) flushLater() {
	left, waits := p.log.FlushIn()
	if !waits {
		return
	}
	at := int64(p.env.mono() + left)
	for {
		known := p.flushAt.Load()
		if known != 0 && known <= at+int64(time.Millisecond) { // the two clocks are not read at the same instant
			return
		}
		if p.flushAt.CompareAndSwap(known, at) {
			p.env.flushes.add(flushAt{at, p})
			return
		}
	}
}

func (f *flusher) add(x flushAt) {
	f.mu.Lock()
	heap.Push(&f.queue, x)
	first := f.queue[0] == x
	f.mu.Unlock()
	if !first {
		return
	}
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// next takes the first of the queue if it is due, else nil and the time until it will be.
func (f *flusher) next(now time.Duration) (*Partition, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 {
		if wait := time.Duration(f.queue[0].at) - now; wait > 0 {
			return nil, wait
		}
		x := heap.Pop(&f.queue).(flushAt)
		if x.p.flushAt.CompareAndSwap(x.at, 0) { // else flush.ms was lowered, and it has been looked at since
			return x.p, 0
		}
	}
	return nil, never
}

// runFlushes syncs what is due until ctx ends.
func (s *Set) runFlushes(ctx context.Context) error {
	var syncs errgroup.Group
	syncs.SetLimit(flushesAtOnce)
	timer := time.NewTimer(never)
	defer timer.Stop()
	for ctx.Err() == nil {
		p, wait := s.env.flushes.next(s.env.mono())
		if p != nil {
			syncs.Go(func() error { p.flush(); return nil })
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-s.env.flushes.wake:
		case <-timer.C:
		}
	}
	return syncs.Wait()
}

// flush syncs the log if its time has come, and waits for what was appended meanwhile.
func (p *Partition) flush() {
	if left, waits := p.log.FlushIn(); waits && left <= 0 {
		if _, err := p.log.Flush(); err != nil && !errors.Is(err, hotlog.ErrClosed) {
			p.out.Error("flush", "error", p.appendFailed(err))
			return
		}
	}
	p.flushLater()
}
