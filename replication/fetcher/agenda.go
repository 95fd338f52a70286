package fetcher

import (
	"container/heap"
	"time"
)

// agenda is what a fetcher's next round has to look at: partitions to which something has happened since the leader's
// session was last told of them. Those of which it has everything cost a round nothing.
type agenda struct {
	todo   []*part // in no order, each once
	off    putOff
	wanted int // partitions that are fetched now, as judge has found them
}

// list has the partition looked at. It is called for whatever may change what judge finds, or the offset to ask for.
func (a *agenda) list(p *part) {
	if !p.listed {
		p.listed = true
		a.todo = append(a.todo, p)
	}
}

// enter is the partition's next phase.
func (a *agenda) enter(p *part, next phase) {
	p.phase = next
	a.list(p)
}

// putOff leaves a partition that is not put off yet alone until the given time.
func (a *agenda) putOff(p *part, until time.Time) {
	p.retryAt, p.isOff = until, true
	heap.Push(&a.off, p)
	a.list(p)
}

// due lists what was put off until now or before.
func (a *agenda) due(now time.Time) {
	for len(a.off) > 0 && !a.off[0].retryAt.After(now) {
		p := heap.Pop(&a.off).(*part)
		p.isOff = false
		a.list(p)
	}
}

// wait is how long nothing is due, at least 1 ms; -1 if nothing is put off.
func (a *agenda) wait() time.Duration {
	if len(a.off) == 0 {
		return -1
	}
	return max(time.Until(a.off[0].retryAt), time.Millisecond)
}

// judge notes whether the partition is fetched now.
func (a *agenda) judge(p *part) {
	wanted := p.phase == fetching && !p.gone && !p.isOff
	switch {
	case wanted && !p.wanted:
		a.wanted++
	case !wanted && p.wanted:
		a.wanted--
	}
	p.wanted = wanted
}

// sift keeps of the list what keep says.
func (a *agenda) sift(keep func(*part) bool) {
	kept := a.todo[:0]
	for _, p := range a.todo {
		if p.listed = keep(p); p.listed {
			kept = append(kept, p)
		}
	}
	clear(a.todo[len(kept):])
	a.todo = kept
}

// putOff is a heap of partitions by the time until which they are put off.
type putOff []*part

func (h putOff) Len() int           { return len(h) }
func (h putOff) Less(i, j int) bool { return h[i].retryAt.Before(h[j].retryAt) }

func (h putOff) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *putOff) Push(x any)   { *h = append(*h, x.(*part)) }

func (h *putOff) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return p
}
