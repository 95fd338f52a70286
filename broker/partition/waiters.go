package partition

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"tidemark/record"
)

// Watcher is told that a partition that it watches has moved.
type Watcher interface {
	// Moved notes it; called by whoever moved the partition, an append among them: it takes no lock but its own, and
	// does not block. It is a hint: whoever is woken looks again. Whom it wakes it names in n: he is woken when all
	// that moved together has been noted. again: it wants to be told of the next move too.
	Moved(n *News) (again bool)
}

// Waiter is a Watcher for a goroutine that waits. One waiter may watch many partitions.
type Waiter struct{ c chan struct{} }

// NewWaiter returns a waiter that watches nothing yet.
func NewWaiter() *Waiter { return &Waiter{c: make(chan struct{}, 1)} }

// C delivers wake-ups; several may have become one.
func (w *Waiter) C() <-chan struct{} { return w.c }

// Moved implements Watcher.
func (w *Waiter) Moved(n *News) bool {
	n.Wake(w)
	return false
}

// Wake wakes it.
func (w *Waiter) Wake() {
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// News collects whom a move of one or several partitions wakes.
type News struct {
	waiters []*Waiter
	acks    []*Acks
	few     [4]*Waiter // room for the first
}

// Wake has w woken.
func (n *News) Wake(w *Waiter) {
	switch last := len(n.waiters) - 1; {
	case n.waiters == nil:
		n.waiters = append(n.few[:0], w)
	case last < 0 || n.waiters[last] != w: // most watch several of the partitions
		n.waiters = append(n.waiters, w)
	}
}

// deliver wakes them. Of the produce requests that have their acknowledgements now the newest is answered first: a
// connection's writer, which waits for the oldest, finds the others' answers ready and sends them all at once.
func (n *News) deliver() {
	for _, w := range n.waiters {
		w.Wake()
	}
	if len(n.acks) > 1 {
		slices.SortFunc(n.acks, func(a, b *Acks) int { return cmp.Compare(b.number, a.number) })
	}
	for _, a := range n.acks {
		a.finish()
	}
	clear(n.waiters)
	clear(n.acks)
	n.waiters, n.acks = n.waiters[:0], n.acks[:0]
}

// anything is the offset of a Watcher that wants to be told of any move.
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
// those that have it.
func (ws *waiters) reached(o record.Offset) {
	if ws.n.Load() == 0 {
		return
	}
	var n News
	ws.tell(o, &n)
	n.deliver()
}

// tell tells those who wait for no more than o; who is to be woken is in n. Who does not want to be told again is
// removed, so that one who does not come back costs nothing more.
func (ws *waiters) tell(o record.Offset, n *News) {
	if ws.n.Load() == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w, until := range ws.set {
		if until <= o && !w.Moved(n) {
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
