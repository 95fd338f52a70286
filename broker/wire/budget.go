package wire

import (
	"container/list"
	"context"
	"math/bits"
	"sync"
)

// Budget is a number of request bytes that may be held at once. A frame takes its bytes in steps, as they
// arrive (hold); those that have begun go before those that have not, each in the order in which they came.
// So that frames that have begun cannot wait for each other for ever, a part of the budget is spared for one
// of them at a time, which may then take all that it lacks.
type Budget struct {
	size  int64
	spare int64 // the largest frame; set before use
	// smallFirst lets those that have not begun go in the order of what they take; set before use.
	smallFirst bool

	mu             sync.Mutex
	used           int64
	over           *hold     // the one that may use what is spared
	growing, fresh list.List // of *want, waiting
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget { return &Budget{size: size} }

// sparing keeps room for the largest frame.
func (b *Budget) sparing(largest int) { b.spare = min(int64(largest), b.size) }

// hold is what one frame has taken. A nil hold has taken nothing.
type hold struct {
	budget *Budget
	bytes  int64 // guarded by budget.mu
}

// want is a take that waits.
type want struct {
	hold  *hold
	bytes int64
	ready chan struct{} // closed when granted
}

func (b *Budget) hold() *hold { return &hold{budget: b} }

// take adds n bytes to what is held. Whoever gets an error still releases the hold.
func (h *hold) take(ctx context.Context, n int) error {
	b := h.budget
	w := &want{hold: h, bytes: int64(n), ready: make(chan struct{})}
	b.mu.Lock()
	queue := &b.fresh
	if h.bytes > 0 {
		queue = &b.growing
	}
	var place *list.Element
	if b.over == h {
		place = queue.PushFront(w) // those before it wait for it
	} else {
		place = queue.PushBack(w)
		for b.smallFirst && place.Prev() != nil && place.Prev().Value.(*want).bytes > w.bytes {
			queue.MoveBefore(place, place.Prev())
		}
	}
	b.pumpLocked()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // granted meanwhile
	default:
		queue.Remove(place)
		b.pumpLocked()
	}
	return ctx.Err()
}

// takeAtOnce adds n bytes if that leaves three quarters of the budget to others, and what is spared, and nobody waits: so
// much may be promised to senders before they have sent it, and spares the copies of taking it in steps.
func (h *hold) takeAtOnce(n int) bool {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+int64(n) > min(b.size/4, b.size-b.spare) || b.growing.Len()+b.fresh.Len() > 0 {
		return false
	}
	b.used += int64(n)
	h.bytes += int64(n)
	return true
}

// release gives everything back; more calls do nothing.
func (h *hold) release() {
	if h == nil {
		return
	}
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= h.bytes
	h.bytes = 0
	if b.over == h {
		b.over = nil
	}
	b.pumpLocked()
}

// contended reports whether anybody waits.
func (b *Budget) contended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.growing.Len()+b.fresh.Len() > 0
}

// pumpLocked grants what can be granted.
func (b *Budget) pumpLocked() {
	for b.growing.Len() > 0 {
		w := b.growing.Front().Value.(*want)
		if !b.fitsLocked(w) && b.over != w.hold {
			if b.over != nil {
				return
			}
			b.over = w.hold
		}
		b.grantLocked(&b.growing, w)
	}
	for b.fresh.Len() > 0 {
		w := b.fresh.Front().Value.(*want)
		if !b.fitsLocked(w) {
			if b.used > 0 {
				return
			}
			b.over = w.hold // nobody holds anything: it has the whole budget
		}
		b.grantLocked(&b.fresh, w)
	}
}

func (b *Budget) fitsLocked(w *want) bool { return b.used+w.bytes <= b.size-b.spare }

func (b *Budget) grantLocked(queue *list.List, w *want) {
	queue.Remove(queue.Front())
	b.used += w.bytes
	w.hold.bytes += w.bytes
	close(w.ready)
}

// Buffers are pooled in powers of two from 1 KiB to 128 MiB, more than the largest request by default: a client that
// batches for many partitions sends tens of MiB at once, and a new buffer for each is zeroed and collected each time.
const (
	minClass = 10
	maxClass = 27
)

var bufferPools [maxClass - minClass + 1]sync.Pool

// getBuffer returns a buffer of n bytes with unspecified content.
func getBuffer(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if class > maxClass {
		b := make([]byte, n)
		return &b
	}
	if p, ok := bufferPools[class-minClass].Get().(*[]byte); ok {
		*p = (*p)[:n]
		return p
	}
	b := make([]byte, n, 1<<class)
	return &b
}

func putBuffer(p *[]byte) {
	c := cap(*p)
	class := bits.Len(uint(c)) - 1
	if c != 1<<class || class < minClass || class > maxClass {
		return
	}
	bufferPools[class-minClass].Put(p)
}
