package tiering

import (
	"sync"
	"time"
)

// outagePause is how long all uploads together leave a catalog alone that did not answer. It is one pause for the whole
// broker, however many partitions it leads, so that a catalog that comes back is not met by every partition's own
// back-off: an outage of half a minute would otherwise hold uploads up for half a minute more (K3).
const outagePause = time.Second

// outage is what the lanes know of the catalog together.
type outage struct {
	mu       sync.Mutex // guards what follows
	until    time.Time
	failures int // calls in a row that were not answered
}

// left is how long a lane has still to leave the catalog alone; 0: it may try.
func (o *outage) left(now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(o.until.Sub(now), 0)
}

// seen notes that the catalog did not answer. wait grows from least to outagePause; failures counts those in a row.
func (o *outage) seen(now time.Time, least time.Duration) (wait time.Duration, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures++
	wait = backoff(min(least, outagePause), outagePause, o.failures)
	o.until = now.Add(wait)
	return wait, o.failures
}

// over notes that the catalog answered.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failures = 0
}
