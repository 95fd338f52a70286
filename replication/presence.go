package replication

import (
	"sync/atomic"
	"time"

	"tidemark/catalog"
)

// Presence says when a follower's fetch session last came. The leaders of all partitions of which the follower has
// everything share it, so that it costs nothing more to note that it still has. Safe for concurrent use.
type Presence struct{ at atomic.Int64 }

// Came notes that the session has come at the given time, after every partition that has moved was told by Fetched.
func (p *Presence) Came(now time.Duration) { p.at.Store(int64(now)) }

// Stays says that a follower whose last fetch found it at the log's end goes on coming, as the presence shows, with the
// same offset. It holds until its next Fetched or Leaves, which has to come before the presence is told of a time at
// which the log was longer.
func (f *Followers) Stays(b catalog.BrokerID, with *Presence) {
	if p := f.of(b); p != nil && p.end >= p.leaderEnd {
		p.with = with
	}
}

// Leaves says that a follower's coming proves nothing of this partition any more.
func (f *Followers) Leaves(b catalog.BrokerID) {
	if p := f.of(b); p != nil {
		p.settle()
	}
}

// settle takes over what the presence has shown so far, and ends it.
func (p *progress) settle() {
	if p.with == nil {
		return
	}
	p.at, p.caughtUp = max(p.at, p.cameAt()), max(p.caughtUp, p.cameAt())
	p.with = nil
}

// cameAt is when the presence last came.
func (p *progress) cameAt() time.Duration { return time.Duration(p.with.at.Load()) }

// hadAll is when the follower last had all of the log.
func (p *progress) hadAll() time.Duration {
	if p.with == nil {
		return p.caughtUp
	}
	return max(p.caughtUp, p.cameAt())
}
