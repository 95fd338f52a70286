package partition

import (
	"sync/atomic"

	"tidemark/record"
)

// raise moves an offset forward, never back, and reports whether it has moved.
func raise(at *atomic.Int64, to record.Offset) bool {
	for {
		old := at.Load()
		if int64(to) <= old {
			return false
		}
		if at.CompareAndSwap(old, int64(to)) {
			return true
		}
	}
}
