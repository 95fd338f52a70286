package partition

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/replication/fetcher"
	"tidemark/tiering"
)

// SetOptions are what the partitions of one broker share.
type SetOptions struct {
	Broker      catalog.BrokerID
	Incarnation catalog.Incarnation
	// Kept says that the incarnation survived the restart, so every log on disk is the one that was
	// in the in-sync set (H4). Otherwise each is compared with the tier before it leads (R18).
	Kept    bool
	Data    *hotlog.DataDir
	Catalog Catalog
	Tier    *tiering.Tier
	Files   *hotlog.FileLimit
	// IdleFile is how long the file of an active segment stays open without use; 0: for ever.
	IdleFile time.Duration

	// InterBroker names the listener at which brokers reach each other.
	InterBroker string
	// LagMax is replica.lag.time.max.ms (30 s).
	LagMax time.Duration
	// Replication bounds fetching from leaders; its Self, Log and Registerer are set here.
	Replication fetcher.Options
	// Refresh pulls the cluster's state now and has it reconciled (H17); nil: never.
	Refresh func(ctx context.Context) error
	// CatalogAge is how long the catalog has not answered (H7); nil: never.
	CatalogAge func() time.Duration

	FreeDelay            time.Duration
	ProduceMark, EndMark int64 // bytes of free disk; see pressure
	Reserve              int64 // bytes of ballast on the data disk, 0: none
	Spare                Spare // what gives way first on the data disk; nil: nothing
	MaxProducers         int
	ProducerExpiry       time.Duration

	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Set is all partitions of this broker.
type Set struct {
	opts SetOptions
	env  *environment
	wake chan struct{}
	pool *fetcher.Pool

	wakeISR chan struct{}
	isrAway bool // the last change of in-sync sets got no answer; only runISR uses it
	doubts  chan struct{}
	inDoubt atomic.Bool // a leadership may be in doubt
	notices notices
	savedHW map[catalog.PartitionID]record.Offset // as the last life left them; not changed

	reconciling sync.Mutex // one Reconcile or settle at a time; before mu

	mu    sync.RWMutex // guards what follows; a leaf
	parts map[catalog.PartitionID]*Partition
	want  map[catalog.PartitionID]wanted
	peers map[catalog.BrokerID]string // where brokers listen for brokers
	fails map[catalog.PartitionID]error
	first bool // the first full image has been seen
	// waiting: some of fails are for want of the catalog, and the log says so.
	waiting bool

	byName atomic.Pointer[map[nameKey]*Partition] // a copy for the hot path
}

type nameKey struct {
	topic     string
	partition int32
}

// wanted is a partition that the image puts on this broker.
type wanted struct {
	row   catalog.Partition
	topic *metadata.Topic
}

// NewSet returns an empty set; Reconcile fills it.
func NewSet(o SetOptions) *Set {
	began := time.Now()
	o.Replication.Self = catalog.Member{Broker: o.Broker, Incarnation: o.Incarnation}
	o.Replication.Log, o.Replication.Registerer = o.Log, o.Registerer
	if o.LagMax == 0 {
		o.LagMax = 30 * time.Second
	}
	s := &Set{
		opts: o, wake: make(chan struct{}, 1), wakeISR: make(chan struct{}, 1), doubts: make(chan struct{}, 1),
		notices: notices{wake: make(chan struct{}, 1)}, pool: fetcher.New(o.Replication),
		parts: map[catalog.PartitionID]*Partition{}, want: map[catalog.PartitionID]wanted{},
		fails: map[catalog.PartitionID]error{},
	}
	s.env = &environment{
		catalog: o.Catalog, tier: o.Tier, freeDelay: o.FreeDelay,
		mono: func() time.Duration { return time.Since(began) }, wall: time.Now,
		pressure: &pressure{disk: o.Data, produceMark: o.ProduceMark, endMark: o.EndMark, reserve: o.Reserve, spare: o.Spare, out: o.Log},
		metrics:  newMetrics(o.Registerer), flushes: newFlusher(), lagMax: o.LagMax, poke: s.poke,
		pokeISR: s.pokeISR, doubt: s.doubt, logFailed: s.logFailed,
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(newCollector(s))
	}
	s.savedHW = s.loadHW()
	s.publishLocked()
	return s
}

func (s *Set) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Now is the monotonic time that the partitions go by.
func (s *Set) Now() time.Duration { return s.env.mono() }

// Find returns a partition by topic name. It takes no lock.
func (s *Set) Find(topic string, partition int32) (*Partition, error) {
	if p, ok := (*s.byName.Load())[nameKey{topic, partition}]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%w: %s-%d", ErrUnknown, topic, partition)
}

// Get returns a partition by id.
func (s *Set) Get(id catalog.PartitionID) (*Partition, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if p, ok := s.parts[id]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknown, id)
}

// All lists the open partitions in no order.
func (s *Set) All() []*Partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]*Partition, 0, len(s.parts))
	for _, p := range s.parts {
		out = append(out, p)
	}
	return out
}

// Offline lists the partitions that the image gives to this broker and that cannot be opened or led, or may be
// another's by now.
func (s *Set) Offline() map[catalog.PartitionID]error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make(map[catalog.PartitionID]error, len(s.fails))
	for id, err := range s.fails {
		out[id] = err
	}
	if !s.inDoubt.Load() {
		return out
	}
	for id, p := range s.parts {
		if l := p.role.Load(); l != nil && l.doubted() {
			_, out[id] = p.leading()
		}
	}
	return out
}

// publishLocked makes the hot path's copy of the map.
func (s *Set) publishLocked() {
	m := make(map[nameKey]*Partition, len(s.parts))
	led := 0
	for _, p := range s.parts {
		m[nameKey{p.Name, p.ID.Partition}] = p
		if p.role.Load() != nil {
			led++
		}
	}
	s.byName.Store(&m)
	s.env.metrics.open.Set(float64(len(s.parts)))
	s.env.metrics.led.Set(float64(led))
	s.env.metrics.offline.Set(float64(len(s.fails)))
}

// Run does the housekeeping of all partitions until ctx ends: rolls, flushes, freeing, retention, following, in-sync
// sets, resignations, deletion of files, and whatever Reconcile could not do at once.
func (s *Set) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.runLocal(ctx) })
	g.Go(func() error { return s.runFlushes(ctx) })
	g.Go(func() error { return s.runRests(ctx) })
	g.Go(func() error { return s.runRetention(ctx) })
	g.Go(func() error { return s.pool.Run(ctx) })
	g.Go(func() error { return s.runISR(ctx) })
	g.Go(func() error { return s.runHW(ctx) })
	g.Go(func() error { return s.runDoubts(ctx) })
	g.Go(func() error { return s.runNotices(ctx) })
	g.Go(func() error { return s.runAlone(ctx) })
	g.Go(func() error { return s.opts.Data.EmptyTrash(ctx) })
	return g.Wait()
}

// round is how often the housekeeping looks even if nothing wakes it.
const round = time.Second

func (s *Set) runLocal(ctx context.Context) error {
	tick := time.NewTicker(round)
	defer tick.Stop()
	var lastSettle, lastSweep time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-tick.C:
		}
		now := s.env.mono()
		if now-lastSettle >= round {
			lastSettle = now
			s.settle(ctx)
			s.resign(ctx)
			if s.env.pressure.measure() {
				s.touchAll()
			}
		}
		if now-lastSweep >= time.Hour {
			lastSweep = now
			s.sweep()
		}
		s.housekeep(ctx, now)
	}
}

func (s *Set) touchAll() {
	for _, p := range s.All() {
		p.touch()
	}
}

// sweep is the slow part: idle producer ids and directories that were set aside long ago.
func (s *Set) sweep() {
	for _, p := range s.All() {
		p.log.ExpireProducers()
	}
	if n, err := s.opts.Data.SweepStray(); err != nil {
		s.opts.Log.Warn("sweep directories that were set aside", "error", err)
	} else if n > 0 {
		s.opts.Log.Info("deleted directories that were set aside over 7 days ago", "count", n)
	}
}

// housekeep looks at each partition that is due and frees what the catalog, asked once for all of them,
// agrees to.
func (s *Set) housekeep(ctx context.Context, now time.Duration) {
	var ask []*Partition
	for _, p := range s.All() {
		if p.isDue(now) && p.housekeep(now) {
			ask = append(ask, p)
		}
	}
	if len(ask) == 0 {
		return
	}
	ids := make([]catalog.PartitionID, len(ask))
	for i, p := range ask {
		ids[i] = p.ID
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	bounds, err := s.opts.Catalog.PartitionBounds(ctx, ids)
	if err != nil {
		if !catalog.Unavailable(err) && ctx.Err() == nil {
			s.opts.Log.Warn("read bounds for freeing", "error", err)
		}
		return
	}
	for _, p := range ask {
		if b, ok := bounds[p.ID]; ok {
			p.free(b)
		}
	}
}

// runRetention moves start where retention says so.
func (s *Set) runRetention(ctx context.Context) error {
	tick := time.NewTicker(round)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		wall := s.env.wall().UnixMilli()
		var due []*Partition
		for _, p := range s.All() {
			if p.wantsExpiry(wall) {
				due = append(due, p)
			}
		}
		if len(due) > 0 {
			s.expire(ctx, due)
		}
	}
}

func (s *Set) expire(ctx context.Context, due []*Partition) {
	nowMs, ok := s.agreedTime(ctx)
	if !ok {
		return
	}
	for _, p := range due {
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := p.expire(call, nowMs)
		cancel()
		if err == nil || ctx.Err() != nil {
			continue
		}
		p.mu.Lock()
		p.expireNow = true
		p.mu.Unlock()
		if catalog.Unavailable(err) {
			return
		}
		if !errors.Is(err, ErrNotLeader) {
			p.out.Warn("retention", "error", err)
		}
	}
}

// agreedTime is the smaller of the broker's and the database's clock, false while they cannot be
// compared or differ by more than a minute (R13).
func (s *Set) agreedTime(ctx context.Context) (int64, bool) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	db, err := s.opts.Catalog.Time(ctx)
	if err != nil {
		return 0, false
	}
	own := s.env.wall()
	if d := own.Sub(db); d > clockSkew || d < -clockSkew {
		s.opts.Log.Warn("retention stands still: this machine's clock and the catalog's differ", "by", d)
		return 0, false
	}
	return min(own.UnixMilli(), db.UnixMilli()), true
}

// Close ends all leaderships and closes all logs; flushing them is part of it. It returns a failure, also
// one of a log that failed earlier (H28), after which the data directory must not be marked clean.
func (s *Set) Close() error {
	s.reconciling.Lock()
	defer s.reconciling.Unlock()
	s.saveHW()
	all := s.All()
	logs := make([]*hotlog.Log, len(all))
	var g errgroup.Group
	g.SetLimit(8)
	for i, p := range all {
		logs[i] = p.log
		g.Go(func() error {
			p.Unlead()
			p.Unfollow()
			return nil
		})
	}
	_ = g.Wait()
	if len(all) == 0 {
		return nil
	}
	err := s.opts.Data.CloseLogs(logs)
	for i, l := range logs {
		if failed := l.Failed(); failed != nil {
			return errors.Join(err, all[i].appendFailed(failed))
		}
	}
	return err
}
