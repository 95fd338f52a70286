package partition

import (
	"slices"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// look is what the catalog showed at a moment: the floor below which records are durable or deleted.
type look struct {
	at    time.Duration // monotonic
	floor record.Offset
}

// observe takes over bounds that the catalog has just shown. They never fall here; what falls in the
// catalog is seen by the smaller floor that freeing asks for (R5).
func (p *Partition) observe(b catalog.Bounds) {
	floor, now := max(b.Start, b.Tiered), p.env.mono()
	raise(&p.tiered, max(b.Tiered, b.Start))
	if started, known := raise(&p.start, b.Start), raise(&p.hw, b.Start); started || known {
		p.moved()
	}
	p.mu.Lock()
	p.tierBytes = b.TierBytes
	p.note(look{now, floor})
	p.mu.Unlock()
}

// note remembers a look. Of those older than free.delay only the newest matters; of those younger, one
// per twentieth of the delay is enough.
func (p *Partition) note(l look) {
	n := len(p.looks)
	if n > 0 && l.floor < p.looks[n-1].floor { // the catalog has gone back: older, higher looks are void
		p.looks = slices.DeleteFunc(p.looks, func(x look) bool { return x.floor > l.floor })
		n = len(p.looks)
	}
	if n > 1 && l.at-p.looks[n-2].at < p.env.freeDelay/20 {
		return
	}
	p.looks = append(p.looks, l)
	for len(p.looks) > 1 && l.at-p.looks[1].at >= p.env.freeDelay {
		p.looks = p.looks[1:]
	}
}

// durable is R5's bound: the smaller of the floor that the catalog has just shown and the one that it
// showed free.delay ago. It is 0 until a look is that old; wait says when the next one will be.
func (p *Partition) durable(now record.Offset) (bound record.Offset, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.env.mono()
	wait = -1
	for _, l := range p.looks {
		if age := at - l.at; age >= p.env.freeDelay {
			bound = min(now, l.floor)
		} else if l.floor > bound {
			wait = p.env.freeDelay - age
			break
		}
	}
	for _, h := range p.holds {
		bound = min(bound, h.base)
	}
	return bound, wait
}

// hold is a range that must stay on disk.
type hold struct{ base record.Offset }

// holdRange keeps [base, next) from being freed if the log has all of it (R8).
func (p *Partition) holdRange(base, next record.Offset) (release func(), ok bool) {
	h := &hold{base}
	p.mu.Lock()
	p.holds = append(p.holds, h)
	p.mu.Unlock()
	release = func() {
		p.mu.Lock()
		p.holds = slices.DeleteFunc(p.holds, func(x *hold) bool { return x == h })
		p.mu.Unlock()
	}
	if b := p.log.Bounds(); b.LocalStart > base || b.End < next {
		release()
		return nil, false
	}
	return release, true
}
