package objstore

import (
	"math"
	"time"
)

// pace decides how fast requests may go: without limit until the store asks to slow down, then a little below what it
// took, rising until it asks again (additive increase, multiplicative decrease). Pure: the caller gives the time.
type pace struct {
	min     float64 // requests per second, the floor
	limit   float64 // requests per second; 0 is no limit
	ceiling float64 // limit at the last cut; 0 is unknown
	next    time.Time
	lastCut time.Time
	raised  time.Time

	// What the store took lately. A window that spans idle time says nothing and is thrown away.
	windowStart time.Time
	taken       int
	takenRate   float64
}

const (
	paceStep   = time.Second // between two cuts, and between two raises
	paceCut    = 0.85
	paceForget = 10 * time.Second // without a cut; then the limit may go for good
)

// delay is how long the next request has to wait.
func (p *pace) delay(now time.Time) time.Duration {
	if p.limit == 0 {
		return 0
	}
	return max(0, p.next.Sub(now))
}

// sent notes a request.
func (p *pace) sent(now time.Time) {
	if p.limit == 0 {
		return
	}
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(time.Second) / p.limit))
}

// took notes that the store served a request.
func (p *pace) took(now time.Time) {
	p.roll(now)
	p.taken++
	if p.limit == 0 || now.Sub(p.lastCut) < paceStep || now.Sub(p.raised) < paceStep {
		return
	}
	p.raised = now
	switch {
	case p.ceiling > 0 && p.limit > 1.3*p.ceiling:
		p.ceiling = 0 // the store takes more than it used to
	case p.ceiling > 0 && p.limit >= 0.9*p.ceiling:
		p.limit += max(0.25, 0.02*p.limit)
	default:
		p.limit += max(1, 0.2*p.limit)
	}
	if now.Sub(p.lastCut) > paceForget && p.takenRate > 0 && p.limit > 4*p.takenRate {
		p.limit, p.ceiling = 0, 0
	}
}

// throttled notes that the store asked to slow down. Requests that were under way together ask together: one cut.
func (p *pace) throttled(now time.Time) {
	p.roll(now)
	if !p.lastCut.IsZero() && now.Sub(p.lastCut) < paceStep {
		return
	}
	base := p.limit
	if base == 0 {
		base = math.MaxFloat64
	}
	// What was really taken is the better measure, where there is one.
	if taken := max(p.takenRate, float64(p.taken)); taken > 0 {
		base = min(base, taken)
	}
	if base == math.MaxFloat64 {
		base = 2 * p.min
	}
	p.ceiling = max(p.min, base)
	p.limit = max(p.min, paceCut*base)
	p.lastCut = now
}

func (p *pace) roll(now time.Time) {
	d := now.Sub(p.windowStart)
	if d < time.Second {
		return
	}
	if d < 3*time.Second {
		p.takenRate = float64(p.taken) / d.Seconds()
	}
	p.windowStart, p.taken = now, 0
}
