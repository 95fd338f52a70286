package record

import "runtime"

// What a client compresses may decompress to thousands of times its size, through a window of megabytes. Two gates bound
// how many clients' batches are in decoders at once, whatever the number of connections (R20): the wide one lets as many
// in as keep the processors busy, for at most briefBytes each; the narrow one leaves processors to all others.
type gate chan struct{}

var (
	wideGate   = make(gate, 2*runtime.GOMAXPROCS(0))
	narrowGate = make(gate, max(1, runtime.GOMAXPROCS(0)/2))
)

const (
	// briefBytes is what any batch may decompress to without being a long one.
	briefBytes = 8 << 20
	// briefRatio is how many times its size a larger batch may do so.
	briefRatio = 4
)

// briefLimit is how many bytes a batch of size bytes may decompress to within the wide gate.
func briefLimit(size int) int64 { return max(briefBytes, briefRatio*int64(size)) }

func (g gate) enter() { g <- struct{}{} }
func (g gate) leave() { <-g }
