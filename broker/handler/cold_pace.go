package handler

import (
	"sync"
	"sync/atomic"
	"time"
)

// coldPace slows cold answers down while producers are at work and the machine is late: a replay takes all the processor
// there is, and its share is not what producers should wait for. How late timers are says how long whoever has become
// ready waits for a processor, in this process and outside of it. Additive increase, multiplicative decrease, as for a
// bucket that throttles; without producers a replay goes as fast as it can.
type coldPace struct {
	sleep func(time.Duration)
	hot   atomic.Int64 // when a produce request came last, ns since 1970

	mu     sync.Mutex // guards what is below
	rate   float64    // bytes a second; 0 until there is a producer
	paid   time.Time  // when what was sent so far is paid for
	window time.Time  // when the present window began
	sent   int        // in it
	late   time.Duration
	slept  int
	probed time.Time
}

const (
	coldStart  = 512 << 20 // bytes a second, where the search begins
	coldFloor  = 64 << 20  // bytes a second of all cold answers that producers have to bear
	coldWindow = 50 * time.Millisecond
	coldLate   = 2 * time.Millisecond // on average: beyond it the machine has too much to do
	coldProbe  = time.Millisecond     // the shortest sleep that says something
	coldCredit = 20 * time.Millisecond
	hotFor     = time.Second // after a produce request
)

func newColdPace() *coldPace { return &coldPace{sleep: time.Sleep} }

// producing notes a produce request.
func (c *coldPace) producing() { c.hot.Store(time.Now().UnixNano()) }

// step waits until it is time to send n bytes of a cold answer.
func (c *coldPace) step(n int) {
	now := time.Now()
	if now.UnixNano()-c.hot.Load() > int64(hotFor) {
		return
	}
	d := c.due(now, n)
	if d == 0 {
		return
	}
	c.sleep(d)
	c.woke(time.Now(), time.Since(now)-d)
}

// due takes n bytes and says how long to wait; 0 is not at all.
func (c *coldPace) due(now time.Time, n int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate == 0 || now.Sub(c.window) > hotFor {
		c.rate, c.window, c.sent, c.late, c.slept = coldStart, now, 0, 0, 0
	}
	if least := now.Add(-coldCredit); c.paid.Before(least) {
		c.paid = least // sleeps end late, which is made up for
	}
	c.paid = c.paid.Add(time.Duration(float64(n) / c.rate * float64(time.Second)))
	c.sent += n
	d := c.paid.Sub(now)
	switch {
	case d >= coldProbe:
	case now.Sub(c.probed) >= coldWindow/5:
		d = coldProbe // the pace does not bind; whether it should has to be asked
	default:
		return 0
	}
	c.probed = now
	return d
}

// woke notes how late a sleep ended, and at the end of a window changes the rate.
func (c *coldPace) woke(now time.Time, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late += late
	c.slept++
	span := now.Sub(c.window)
	if span < coldWindow {
		return
	}
	took := float64(c.sent) / span.Seconds()
	if c.late/time.Duration(c.slept) > coldLate {
		c.rate = max(coldFloor, 0.75*min(c.rate, took))
	} else {
		c.rate = min(1.1*c.rate+(1<<20), 4*max(took, coldStart))
	}
	c.window, c.sent, c.late, c.slept = now, 0, 0, 0
}
