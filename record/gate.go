package record

import (
	"fmt"
	"runtime"
	"time"
)

// What a client compresses may decompress to thousands of times its size, through a window of megabytes. Gates bound how
// many clients' batches are in decoders at once, whatever the number of connections (R20). The wide one lets as many in as
// keep the processors busy, for at most briefBytes each; what turns out to be more begins anew in the narrow one, which
// leaves processors to all others. While the wide one is full the quick one comes first, where small and honest batches
// end without waiting for all the others.
type gate chan struct{}

var (
	quickGate  = make(gate, 2*runtime.GOMAXPROCS(0))
	wideGate   = make(gate, 2*runtime.GOMAXPROCS(0))
	narrowGate = make(gate, max(1, runtime.GOMAXPROCS(0)/2))
)

// patience bounds the wait for a gate: a connection that waits can do nothing else, not even end.
const patience = 2 * time.Second

const (
	// quickBytes is what any batch may decompress to without being more than a quick one.
	quickBytes = 256 << 10
	// briefBytes is what any batch may decompress to without being a long one.
	briefBytes = 8 << 20
	// briefRatio is how many times its size a larger batch may do so.
	briefRatio = 4
)

// quickLimit is how many bytes a batch of size bytes may decompress to within the quick gate.
func quickLimit(size int) int64 { return max(quickBytes, briefRatio*int64(size)) }

// briefLimit is how many bytes a batch of size bytes may decompress to within the wide gate.
func briefLimit(size int) int64 { return max(briefBytes, briefRatio*int64(size)) }

// tryEnter lets the caller in if there is a place.
func (g gate) tryEnter() bool {
	select {
	case g <- struct{}{}:
		return true
	default:
		return false
	}
}

// enter lets the caller in, or returns ErrBusy after a while; leave follows only the former.
func (g gate) enter() error {
	if g.tryEnter() {
		return nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case g <- struct{}{}:
		return nil
	case <-late.C:
		return fmt.Errorf("%w: none of %d places has become free in %v", ErrBusy, cap(g), patience)
	}
}

func (g gate) leave() { <-g }
