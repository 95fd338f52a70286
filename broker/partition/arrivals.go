package partition

import (
	"math"

	"tidemark/record"
)

// Arrivals collects the partitions that one request has moved: to which it has brought records, or whose high watermark
// it has lifted. Whoever reads several of them, or waits for several acknowledgements, is woken once, when all is there;
// woken at the first, he would leave with one partition's records and be back for each of the others. It belongs to one
// goroutine, which announces them once it has moved all.
type Arrivals struct {
	at   []*Partition
	news News
}

// NewArrivals has room for n partitions.
func NewArrivals(n int) *Arrivals { return &Arrivals{at: make([]*Partition, 0, n)} }

// Announce wakes who waits for them.
func (a *Arrivals) Announce() {
	for _, p := range a.at {
		p.waiters.tell(record.Offset(p.hw.Load()), &a.news)
		p.tail.tell(math.MaxInt64, &a.news)
	}
	clear(a.at)
	a.at = a.at[:0]
	a.news.deliver()
}
