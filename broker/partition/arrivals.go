package partition

import "tidemark/record"

// Arrivals collects the partitions to which one request has brought records. Whoever reads several of them is woken once,
// when all is there; woken at the first append, he would leave with one partition's records and be back for each of the
// others. It belongs to one goroutine, which announces them once its appends are done.
type Arrivals struct{ at []*Partition }

// NewArrivals has room for n partitions.
func NewArrivals(n int) *Arrivals { return &Arrivals{at: make([]*Partition, 0, n)} }

// Announce wakes the readers.
func (a *Arrivals) Announce() {
	for _, p := range a.at {
		p.waiters.reached(record.Offset(p.hw.Load()))
		p.tail.wake()
	}
	a.at = nil
}
