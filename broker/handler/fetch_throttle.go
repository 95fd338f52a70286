package handler

import (
	"time"

	"tidemark/catalog"
)

// throttleReplica counts what a replica's answer holds for throttled partitions against the rate of leaders, and is the
// pause until that is paid off. The replica leaves those partitions out of its fetches for so long; what is in sync is
// neither counted nor held up.
func (f *fetch) throttleReplica() time.Duration {
	if f.replica == (catalog.Member{}) {
		return 0
	}
	sent := 0
	for _, e := range f.entries {
		if e.got.Bytes > 0 && e.part.Throttles(f.replica.Broker) {
			sent += e.got.Bytes
		}
	}
	now := time.Now()
	f.h.Dynamic.Leader.Spend(sent, now)
	return f.h.Dynamic.Leader.Pause(now)
}
