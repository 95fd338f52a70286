package partition

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/record"
)

// Ack is the acknowledgement that an acks=all produce waits for. It belongs to the leader epoch of its
// append (H11).
type Ack struct {
	p      *Partition
	lead   *leadership
	offset record.Offset // hw must reach it
}

// Done reports whether the high watermark has passed the records; ErrNotLeader if the leadership of the append
// has ended first, ErrNotEnoughAfterAppend if the in-sync set has become too small. Whatever changes its answer tells
// the partition's waiters afterwards.
func (a Ack) Done() (bool, error) {
	hw := record.Offset(a.p.hw.Load()) // first: it is this leadership's if that goes on
	switch {
	case a.p.role.Load() != a.lead:
		return false, fmt.Errorf("%w: leadership ended before the records were replicated", ErrNotLeader)
	case hw >= a.offset:
		return true, nil
	case a.lead.doubted():
		return false, fmt.Errorf("%w: another broker leads a higher epoch", ErrNotLeader)
	case !a.lead.enough():
		return false, fmt.Errorf("%w: %d in sync, %d wanted", ErrNotEnoughAfterAppend, a.lead.inSync.Load(), a.lead.minISR.Load())
	}
	return false, nil
}

// requests numbers the Acks in the order in which they were made.
var requests atomic.Int64

// Acks is all acknowledgements that one produce request waits for. No goroutine waits: whoever brings the last outcome
// finishes the request.
type Acks struct {
	number int64
	done   func(errs []error)
	timer  *time.Timer
	stop   func() bool // the watching of the context

	mu    sync.Mutex // guards what follows; a leaf, after the partitions' waiters
	left  int        // without outcome, Await itself among them
	waits []ackWait
	errs  []error
}

// ackWait is one of them; a Watcher.
type ackWait struct {
	all     *Acks
	ack     Ack
	at      int
	decided bool
	told    bool // it is not among the partition's waiters any more
}

// Await calls done once, with the outcome of each acknowledgement: nil, an error of Ack.Done, or context.DeadlineExceeded
// after the given time or the context's error if it is open then. It may do so before it returns. done is called by
// whoever brings the last outcome: it does not block, and takes no lock that is held over an append or a fetch.
func Await(ctx context.Context, acks []Ack, within time.Duration, done func(errs []error)) {
	a := newAcks(acks, done)
	a.timer = time.AfterFunc(within, func() { a.giveUp(context.DeadlineExceeded) })
	a.stop = context.AfterFunc(ctx, func() { a.giveUp(ctx.Err()) })
	for i := range a.waits {
		a.watch(i)
		a.look(i)
	}
	a.begun()
}

func newAcks(acks []Ack, done func(errs []error)) *Acks {
	a := &Acks{
		number: requests.Add(1), done: done, left: len(acks) + 1,
		waits: make([]ackWait, len(acks)), errs: make([]error, len(acks)),
	}
	for i, ack := range acks {
		a.waits[i] = ackWait{all: a, ack: ack, at: i}
	}
	return a
}

// watch has the i-th acknowledgement's moves told; a look follows, so that nothing is missed.
func (a *Acks) watch(i int) {
	w := &a.waits[i]
	w.ack.p.waiters.add(w, w.ack.offset)
}

func (a *Acks) look(i int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lookLocked(i, nil)
}

// begun says that all are watched and were looked at; before it nothing finishes.
func (a *Acks) begun() {
	a.mu.Lock()
	a.left--
	last := a.left == 0
	a.mu.Unlock()
	if last {
		a.finish()
	}
}

// lookLocked notes the outcome if there is one, or else the given error unless it is nil. last: it was the last one.
func (a *Acks) lookLocked(i int, otherwise error) (last bool) {
	w := &a.waits[i]
	if w.decided {
		return false
	}
	ok, err := w.ack.Done()
	if !ok && err == nil {
		err = otherwise
	}
	if !ok && err == nil {
		return false
	}
	w.decided, a.errs[i] = true, err
	a.left--
	return a.left == 0
}

// Moved implements Watcher.
func (w *ackWait) Moved(n *News) (again bool) {
	a := w.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lookLocked(w.at, nil) {
		n.acks = append(n.acks, a)
	}
	w.told = w.decided
	return !w.told
}

// giveUp gives those that are open the error as their outcome.
func (a *Acks) giveUp(err error) {
	a.mu.Lock()
	last := false
	for i := range a.waits {
		last = a.lookLocked(i, err) || last
	}
	a.mu.Unlock()
	if last {
		a.finish()
	}
}

// finish is called once, when all have their outcome.
func (a *Acks) finish() {
	a.timer.Stop()
	a.stop()
	for i := range a.waits {
		w := &a.waits[i]
		a.mu.Lock()
		told := w.told
		a.mu.Unlock()
		if !told {
			w.ack.p.waiters.remove(w)
		}
	}
	a.done(a.errs)
}
