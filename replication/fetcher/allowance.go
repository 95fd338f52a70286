package fetcher

import (
	"sync"
	"time"
)

// allowance is how many bytes a second may be copied. What was copied is owed, and nothing more is asked for until it
// is paid off: an answer's size is not known before it is there.
type allowance struct {
	perSecond int64

	mu   sync.Mutex // guards what follows; a leaf
	paid time.Time  // by then everything that was copied is paid off
}

// spend notes that n bytes were copied.
func (a *allowance) spend(n int, now time.Time) {
	if a.perSecond <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paid.Before(now) {
		a.paid = now
	}
	a.paid = a.paid.Add(time.Duration(float64(n) / float64(a.perSecond) * float64(time.Second)))
}

// pause is how long nothing may be asked for, at most longPause, so that it is looked at again.
func (a *allowance) pause(now time.Time) time.Duration {
	if a.perSecond <= 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return min(max(a.paid.Sub(now), 0), longPause)
}
