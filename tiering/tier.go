package tiering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/objstore"
)

// Tier is the object tier of one broker.
type Tier struct {
	o     Options
	log   *slog.Logger
	m     *metrics
	bound identity
	rows  *rowCache
	read  *readers
	// The same bucket under the four priorities.
	store, upStore, rewriteStore, gcStore objstore.Store
	refused                               refusals
	sched                                 *scheduler
	away                                  outage

	// ctx is the life of everything that outlives a call: reads and uploads. work counts the
	// goroutines of reads, which callers start; Close waits for them.
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards lanes and closed
	lanes  map[catalog.PartitionID]*lane
	closed bool
}

// Open checks the options and whose bucket it is: ErrOtherCluster if cluster.json names another
// cluster, ErrNewerBucket if it has a later generation than the catalog. If the bucket cannot be reached the Tier is open but not Ready, uploads and reads wait or
// fail until Run has read the file (H22). Nothing else runs before Run.
func Open(ctx context.Context, o Options) (*Tier, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("tiering: register metrics: %w", err)
	}
	t := &Tier{
		o: o, log: o.Logger.With("part", "tiering"), m: m,
		sched: newScheduler(),
		lanes: make(map[catalog.PartitionID]*lane),
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.store, t.upStore = o.Store, orStore(o.UploadStore, o.Store)
	t.rewriteStore, t.gcStore = orStore(o.RewriteStore, o.Store), orStore(o.RemoveStore, o.Store)
	t.rows = newRowCache(o.RowTTL)
	t.read = newReaders(t)
	if err := t.identify(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func orStore(s, other objstore.Store) objstore.Store {
	if s == nil {
		return other
	}
	return s
}

// Run does the work until ctx ends or something fails that retrying cannot mend; it returns nil in the
// first case. It waits for all of its goroutines.
func (t *Tier) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	g, ctx := errgroup.WithContext(ctx)
	if !t.Ready() {
		g.Go(func() error { return t.awaitBucket(ctx) })
	}
	work := make(chan *lane)
	g.Go(func() error { t.sched.dispatch(ctx, work); return nil })
	for range t.o.UploadConcurrency {
		g.Go(func() error { t.uploadWorker(ctx, work); return nil })
	}
	g.Go(func() error { t.collectLoop(ctx); return nil })
	return g.Wait()
}

// Close ends reads and uploads in progress and waits for the goroutines of reads. Run returns too, and
// must have returned before the store, the cache or the catalog is closed. Close is idempotent.
func (t *Tier) Close() error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.work.Wait()
	return t.read.tails.Close()
}

// begin starts a goroutine that Close waits for; false if the tier is closed.
func (t *Tier) begin(f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.work.Go(f)
	return true
}

// Lead starts the uploads of a partition that this broker leads. A lane that is still there from an
// earlier leadership is ended first, as by Unlead. clean, if it is not nil, are the bounds with which the catalog has shown,
// since the leadership was given, that earlier uploads have left nothing: then it is not asked for each partition.
func (t *Tier) Lead(p catalog.PartitionID, s Source, clean *catalog.Bounds) {
	l := newLane(p, s)
	l.clean = clean
	for {
		t.mu.Lock()
		if t.lanes[p] == nil {
			t.lanes[p] = l
			t.mu.Unlock()
			break
		}
		t.mu.Unlock()
		t.Unlead(p)
	}
	t.sched.add(l)
}

// Unlead ends the uploads of a partition and returns when the one in progress has stopped; its intent
// is left for the next leader. The source is not used afterwards. It does nothing if p is not led.
func (t *Tier) Unlead(p catalog.PartitionID) {
	t.mu.Lock()
	l := t.lanes[p]
	delete(t.lanes, p)
	t.mu.Unlock()
	if l == nil {
		return
	}
	l.cancel()
	t.sched.remove(l)
	t.m.moving(p)
}

// Wake says that there may be something to upload: a segment was sealed, or hw or the stable offset
// moved past one. It never blocks and may be called often; a partition that is backing off after a
// failure is not hurried.
func (t *Tier) Wake(p catalog.PartitionID) {
	if l := t.lane(p); l != nil {
		t.sched.wake(l)
	}
}

// Forget drops what is cached of the partition below an offset to which its start has moved (retention,
// DeleteRecords); the upload goes on from there if that lies above tiered (A2). For a deleted topic call
// it with math.MaxInt64.
func (t *Tier) Forget(p catalog.PartitionID, below record.Offset) {
	t.rows.forget(p, below)
	if l := t.lane(p); l != nil {
		l.raise(below)
		t.sched.wake(l)
	}
}

func (t *Tier) lane(p catalog.PartitionID) *lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lanes[p]
}
