package tiering

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// lane is one led partition's uploads: one attempt at a time, always at tiered.
type lane struct {
	p      catalog.PartitionID
	source Source
	// ctx ends with Unlead.
	ctx    context.Context
	cancel context.CancelFunc

	// The scheduler's, guarded by its lock. idle is closed when a removed lane's worker has let go.
	due, notBefore time.Time
	place          int // in the queue, -1 while not in it
	running        bool
	woken          bool
	byWake         bool // the turn that runs was begun by a wake
	removed        bool
	idle           chan struct{}

	// What only the worker that holds the lane touches.
	guard    catalog.Guard
	stopped  bool            // guard was found fenced, or the topic gone
	settled  bool            // leftover intents have been looked after, under guard
	clean    *catalog.Bounds // there is nothing to settle, and these are the bounds; nil once used
	chain    *chain
	attempt  *attempt
	quiet    int // turns in a row that found nothing
	failures int

	lost atomic.Bool // the catalog has lost rows of the partition; they are to be looked for

	mu     sync.Mutex // guards status
	status Status
}

// chain is the state at the end of the tier, which the next object continues (R2).
type chain struct {
	next      record.Offset
	epochs    record.EpochHistory
	producers *producer.State
}

// attempt is one try to bring one run into the tier under one key.
type attempt struct {
	id         string
	base, next record.Offset
	key        string
	sum        [32]byte // of the object; zero before the first build
	// stored is set once the object was put and read back; then segment and after are what is to be
	// published.
	stored  bool
	segment catalog.Segment
	after   *chain
	noted   bool // segment is in the broker's own record
}

func newLane(p catalog.PartitionID, s Source) *lane {
	l := &lane{p: p, source: s, place: -1, idle: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// bounds as last seen.
func (l *lane) bounds() catalog.Bounds {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status.Bounds
}

// see takes over bounds from the catalog, which is the truth even where it is lower than it was; fell
// says that tiered is.
func (l *lane) see(b catalog.Bounds) (fell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fell = b.Tiered < l.status.Tiered
	l.status.Bounds = b
	return fell
}

// raise notes that start has moved to o.
func (l *lane) raise(o record.Offset) {
	if o == math.MaxInt64 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Start = max(l.status.Start, o)
	l.status.Tiered = max(l.status.Tiered, o)
}

// stalled notes a failed turn.
func (l *lane) stalled(now time.Time, err error) {
	l.failures++
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.Stalled == "" {
		l.status.StalledSince = now
	}
	l.status.Stalled = err.Error()
	l.status.Failures = l.failures
}

// moving notes that the lane is not stalled.
func (l *lane) moving() {
	l.failures = 0
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Stalled, l.status.StalledSince, l.status.Failures = "", time.Time{}, 0
}

// published counts an object.
func (l *lane) published(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.Uploaded++
	l.status.UploadedBytes += bytes
}
