package replication

import (
	"sync"
	"time"
)

// Throttle is how many bytes a second may move; the zero value sets no limit. What has moved is owed, and nothing more
// may move until it is paid off: an answer's size is not known before it is there. Safe for concurrent use.
type Throttle struct {
	mu   sync.Mutex // guards what follows; a leaf
	rate int64      // bytes a second; 0: no limit
	owed float64    // bytes, at the time `at`
	at   time.Time
}

// SetRate sets the limit; 0 or less is none, and forgives what is owed.
func (t *Throttle) SetRate(bytesPerSecond int64, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleLocked(now)
	if t.rate = max(bytesPerSecond, 0); t.rate == 0 {
		t.owed = 0
	}
}

// Spend notes that n bytes have moved.
func (t *Throttle) Spend(n int, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rate == 0 {
		return
	}
	t.settleLocked(now)
	t.owed += float64(n)
}

// Pause is how long nothing may move.
func (t *Throttle) Pause(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rate == 0 {
		return 0
	}
	t.settleLocked(now)
	return time.Duration(t.owed / float64(t.rate) * float64(time.Second))
}

// settleLocked pays off what the time until now allows.
func (t *Throttle) settleLocked(now time.Time) {
	if past := now.Sub(t.at); past > 0 {
		t.owed = max(t.owed-past.Seconds()*float64(t.rate), 0)
		t.at = now
	}
}
