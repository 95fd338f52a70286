package partition

import (
	"sync/atomic"

	"tidemark/record"
)

// raise moves an offset forward, never back.
func raise(at *atomic.Int64, to record.Offset) {
	for {
		old := at.Load()
		if int64(to) <= old || at.CompareAndSwap(old, int64(to)) {
			return
		}
	}
}
