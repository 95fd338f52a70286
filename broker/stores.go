package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// storesEvery is how often the stores are asked how they are; storesTime bounds one question.
	storesEvery = 5 * time.Second
	storesTime  = 5 * time.Second
)

// noStandby is the warning of a catalog whose failover may lose commits.
const noStandby = "Postgres has no synchronous standby (synchronous_standby_names is empty): if it fails over, commits that were answered may be lost"

// standby is a catalog that can say whether its commits survive a failover.
type standby interface {
	// SynchronousStandby reports whether a commit waits for a second server.
	SynchronousStandby(ctx context.Context) (bool, error)
}

// storeWatch is what /readyz says of the bucket and the catalog's standby. It asks also when nothing else does, so that a
// store that goes away is told before somebody needs it (DESIGN §9).
type storeWatch struct {
	bucket atomic.Pointer[bucketOutage] // nil: the bucket answers
	alone  atomic.Bool                  // the catalog has no synchronous standby
}

// bucketOutage is since when the bucket has not answered, and what its last answer was.
type bucketOutage struct {
	since time.Time
	err   error
}

// watchStores asks until ctx ends.
func (b *Broker) watchStores(ctx context.Context) error {
	for {
		b.askBucket(ctx)
		b.askStandby(ctx)
		if !rest(ctx, storesEvery) {
			return nil
		}
	}
}

func (b *Broker) askBucket(ctx context.Context) {
	if !b.tier.Ready() {
		return // the tier asks itself
	}
	call, cancel := context.WithTimeout(ctx, storesTime)
	defer cancel()
	err := b.tier.Probe(call)
	old := b.stores.bucket.Load()
	switch {
	case ctx.Err() != nil:
	case err == nil:
		b.stores.bucket.Store(nil)
	case old == nil:
		b.stores.bucket.Store(&bucketOutage{time.Now(), err})
	default:
		b.stores.bucket.Store(&bucketOutage{old.since, err})
	}
}

func (b *Broker) askStandby(ctx context.Context) {
	s, ok := b.opts.Catalog.(standby)
	if !ok {
		return
	}
	call, cancel := context.WithTimeout(ctx, storesTime)
	defer cancel()
	if has, err := s.SynchronousStandby(call); err == nil {
		b.stores.alone.Store(!has)
	}
}

// warnings are the lines for /readyz.
func (w *storeWatch) warnings() []string {
	var out []string
	if o := w.bucket.Load(); o != nil {
		out = append(out, fmt.Sprintf("the bucket has not answered for %s: uploads wait, cold reads fail: %v", time.Since(o.since).Round(time.Second), o.err))
	}
	if w.alone.Load() {
		out = append(out, noStandby)
	}
	return out
}
