package pace

import (
	"sync"
	"sync/atomic"
	"time"
)

// Traffic knows when producers were last at work. The zero value has seen none; a nil one sees none.
type Traffic struct{ last atomic.Int64 } // ns since 1970

// Producing notes a produce request.
func (t *Traffic) Producing() {
	if t != nil {
		t.last.Store(time.Now().UnixNano())
	}
}

// Pace is the pace of one kind of work. How late timers are says how long whoever has become ready waits for a
// processor, in this process and outside of it. Additive increase, multiplicative decrease, as for a bucket that
// throttles; without producers the work goes as fast as it can. For concurrent use; a nil Pace waits for nobody.
type Pace struct {
	sleep func(time.Duration)
	hot   *Traffic
	floor float64 // bytes a second

	mu     sync.Mutex // guards what is below
	rate   float64    // bytes a second; 0 until there is a producer
	paid   time.Time  // when what was done so far is paid for
	window time.Time  // when the present window began
	sent   int        // in it
	late   time.Duration
	slept  int
	probed time.Time
}

const (
	start    = 512 << 20 // bytes a second, where the search begins
	span     = 50 * time.Millisecond
	tooLate  = 500 * time.Microsecond // on average: beyond it the machine has too much to do
	leastNap = time.Millisecond       // the shortest sleep that says something
	credit   = 20 * time.Millisecond
	hotFor   = time.Second // after a produce request
)

// New makes a pace that never falls below floor, in bytes a second of all work that asks it.
func New(hot *Traffic, floor int64) *Pace {
	return &Pace{sleep: time.Sleep, hot: hot, floor: float64(floor)}
}

// Step waits until it is time for n bytes more.
func (p *Pace) Step(n int) {
	if p == nil {
		return
	}
	now := time.Now()
	if now.UnixNano()-p.hot.last.Load() > int64(hotFor) {
		return
	}
	d := p.due(now, n)
	if d == 0 {
		return
	}
	p.sleep(d)
	p.woke(time.Now(), time.Since(now)-d)
}

// due takes n bytes and says how long to wait; 0 is not at all.
func (p *Pace) due(now time.Time, n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate == 0 || now.Sub(p.window) > hotFor {
		p.rate, p.window, p.sent, p.late, p.slept = start, now, 0, 0, 0
	}
	if least := now.Add(-credit); p.paid.Before(least) {
		p.paid = least // sleeps end late, which is made up for
	}
	p.paid = p.paid.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	p.sent += n
	d := p.paid.Sub(now)
	switch {
	case d >= leastNap:
	case now.Sub(p.probed) >= span/5:
		d = leastNap // the pace does not bind; whether it should has to be asked
	default:
		return 0
	}
	p.probed = now
	return d
}

// woke notes how late a sleep ended, and at the end of a window changes the rate.
func (p *Pace) woke(now time.Time, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late += late
	p.slept++
	took := now.Sub(p.window)
	if took < span {
		return
	}
	rate := float64(p.sent) / took.Seconds()
	if p.late/time.Duration(p.slept) > tooLate {
		p.rate = max(p.floor, 0.75*min(p.rate, rate))
	} else {
		p.rate = min(1.1*p.rate+(1<<20), 4*max(rate, start))
	}
	p.window, p.sent, p.late, p.slept = now, 0, 0, 0
}
