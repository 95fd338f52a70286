package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"tidemark/broker/admin"
	"tidemark/broker/dynamic"
	"tidemark/broker/group"
	"tidemark/broker/handler"
	"tidemark/broker/metadata"
	"tidemark/broker/pace"
	"tidemark/broker/partition"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/hotlog"
	"tidemark/replication/fetcher"
	"tidemark/tiering"
	"tidemark/tiering/cache"
	"tidemark/tiering/objstore"
)

// Broker is one node of a cluster.
type Broker struct {
	opts    Options
	log     *slog.Logger
	id      catalog.BrokerID
	cluster catalog.ClusterRow

	data      *hotlog.DataDir
	files     *hotlog.FileLimit // of all that reads files for clients (P4)
	server    *wire.Server
	http      *admin.Server // nil if there is none
	chunks    *cache.Cache
	tier      *tiering.Tier
	parts     *partition.Set
	dynamic   *dynamic.Settings
	follower  *metadata.Follower
	groups    *group.Coordinator
	handlers  *handler.Handlers
	member    *member
	control   *controller
	slots     slotTable
	compactor *compaction.Worker
	traffic   pace.Traffic
	custody   *custody
	lost      lostWatch
	stores    storeWatch

	registered catalog.Registered
	kept       bool // the incarnation is the one from before the restart
	stored     atomic.Bool
	suspected  int64 // the generation since which no object is removed; 0: none (H2)
	savedCopy  catalog.Position
	serving    atomic.Bool
	ran        bool // Run closes the listeners itself
	closed     bool
}

// Open builds the broker: when it returns, its partitions are open and led as far as they can be, and its
// listeners are bound; Run serves them. A broker that cannot be opened leaves nothing behind.
func Open(ctx context.Context, o Options) (_ *Broker, err error) {
	b := &Broker{opts: o, log: o.Log, id: catalog.BrokerID(o.Config.Broker.ID)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	steps := []func(context.Context) error{
		b.openData, b.openPublished, b.listen, b.openTier, b.register, b.openState, b.openCompaction, b.openCustody, b.openHandlers,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// openData locks the data directory and binds it to this cluster and id (H27).
func (b *Broker) openData(ctx context.Context) error {
	var err error
	restoring := false
	err = b.opts.Patience.Await(ctx, func(ctx context.Context) error {
		if b.cluster, err = b.opts.Catalog.Cluster(ctx); err == nil {
			restoring, err = b.opts.Catalog.Restoring(ctx)
		}
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("read the cluster from the catalog: %w", err)
	case restoring:
		return errIncomplete
	}
	b.files = hotlog.NewFileLimit(b.opts.Config.Disk.FileReads, b.opts.Config.Disk.OpenSegments)
	disk := b.opts.Disk
	disk.Path = b.opts.Config.Broker.DataDir
	b.data, err = hotlog.OpenDataDir(disk)
	if err != nil {
		return err
	}
	return b.data.Bind(b.cluster.ID.String(), int32(b.id))
}

// listen binds the addresses, so that one in use is told before anything else happens.
func (b *Broker) listen(ctx context.Context) error {
	n := b.opts.Config.Network
	wo := wire.Options{
		MaxRequestBytes: int(n.MaxRequestBytes), ProduceBytes: max(int64(n.ProduceMemory), int64(n.MaxRequestBytes)),
		OtherBytes: int64(n.RequestMemory), AnswerBytes: int64(n.AnswerMemory), MaxConnections: n.MaxConnections,
		MaxConnectionsPerAddress: n.MaxConnectionsPerIP, SendBuffer: int(n.SendBuffer), MaxInFlight: n.MaxInFlight, IdleTimeout: n.ConnectionIdle,
		ShutdownTimeout: b.opts.Config.Broker.ShutdownTimeout / 3, Reads: b.files,
		Log: b.log.With("part", "wire"), Metrics: wire.NewMetrics(b.opts.Registry),
	}
	for _, l := range n.Listeners {
		lo := wire.ListenerOptions{Name: l.Name, Address: l.Address()}
		if l.Name == n.InterBroker && len(n.Listeners) > 1 {
			// What brokers ask of each other never waits behind clients (P3).
			lo.ProduceBudget, lo.OtherBudget = wire.NewBudget(wo.ProduceBytes), wire.NewBudget(wo.OtherBytes)
		}
		wo.Listeners = append(wo.Listeners, lo)
	}
	var err error
	if b.server, err = wire.Listen(ctx, wo); err != nil {
		return err
	}
	if b.opts.Config.HTTP.Listen == "" {
		return nil
	}
	b.http, err = admin.Listen(ctx, admin.Options{
		Listen: b.opts.Config.HTTP.Listen, Token: b.opts.Config.HTTP.Token.Reveal(),
		State: state{b}, Audit: state{b}, Gatherer: b.opts.Registry, Log: b.log.With("part", "http"),
	})
	return err
}

// openTier opens the chunk cache and the object tier. It does so before the broker registers: one that has the wrong
// bucket, or an older catalog than the bucket's, is refused without ever having been a member of the cluster.
func (b *Broker) openTier(ctx context.Context) error {
	t := b.opts.Config.Tier
	dir := t.CacheDir
	if dir == "" {
		dir = filepath.Join(b.opts.Config.Broker.DataDir, "cache")
	}
	var err error
	b.chunks, err = cache.Open(cache.Options{
		Dir: dir, MaxBytes: int64(t.CacheBytes), MemoryBytes: int64(t.CacheMemory), DownloadTimeout: t.ColdReadTimeout,
		Reads: b.files, Metrics: cache.NewMetrics(b.opts.Registry),
	})
	if err != nil {
		return err
	}
	var holds bool
	err = b.opts.Patience.Await(ctx, func(ctx context.Context) error {
		holds, err = catalog.HoldsObjects(ctx, b.opts.Catalog)
		return err
	})
	if err != nil {
		return fmt.Errorf("read from the catalog whether there are objects: %w", err)
	}
	counts := objstore.NewMetrics(b.opts.Registry)
	var bandwidth [len(objstore.Classes)]int64
	bandwidth[objstore.Upload] = int64(t.UploadBandwidth)
	bandwidth[objstore.Compaction] = int64(t.CompactionBandwidth)
	bucket := counts.Wrap(b.opts.Objects)
	limiter := objstore.NewLimiter(objstore.LimiterOptions{BytesPerSecond: bandwidth, Metrics: counts})
	b.custody = &custody{b: b, store: limiter.For(objstore.GC, bucket)}
	b.tier, err = tiering.Open(ctx, tiering.Options{
		Store: limiter.For(objstore.ColdRead, bucket), UploadStore: limiter.For(objstore.Upload, bucket),
		RewriteStore: limiter.For(objstore.Compaction, bucket), RemoveStore: b.custody.store, MayCollect: b.custody.mayRemove,
		Catalog: b.opts.Catalog, Cache: b.chunks,
		Cluster: b.cluster.ID, Generation: b.cluster.Generation, Holds: holds,
		TailBytes: int64(t.TailCacheBytes), ReadConcurrency: t.ColdReads, ReadTimeout: t.ColdReadTimeout,
		Journal: b.lost.record, WentBack: func() { b.lost.doubt.Store(true) },
		UploadConcurrency: t.UploadConcurrency, Grace: t.GCGrace, Logger: b.log, Metrics: b.opts.Registry,
	})
	return err
}

// spare is the cache, where it lies in the data folder.
func (b *Broker) spare() partition.Spare {
	if b.opts.Config.Tier.CacheDir != "" {
		return nil
	}
	return b.chunks
}

// openState pulls the cluster's state, elects what has no leader and opens the partitions.
func (b *Broker) openState(ctx context.Context) (err error) {
	if b.dynamic, err = dynamic.Open(b.data); err != nil {
		return err
	}
	d := b.opts.Config.Disk
	b.parts = partition.NewSet(partition.SetOptions{
		Broker: b.id, Incarnation: b.registered.Incarnation, Kept: b.kept,
		Data: b.data, Catalog: b.opts.Catalog, Tier: b.tier,
		Files: b.files, IdleFile: d.IdleFile,
		FreeDelay: b.opts.Config.Tier.FreeDelay, ProduceMark: int64(d.ProduceMark), EndMark: int64(d.AppendMark), Reserve: int64(d.Reserve), Spare: b.spare(),
		MaxProducers: d.MaxProducerIDs, ProducerExpiry: d.ProducerIDExpiration,
		InterBroker: b.opts.Config.Network.InterBroker, LagMax: b.opts.Config.Replication.LagMax,
		Replication: fetcher.Options{
			MaxBytes: int(b.opts.Config.Replication.FetchBytes), PartitionBytes: int(b.opts.Config.Replication.PartitionBytes),
			CatchUp: int64(b.opts.Config.Replication.CatchUp), Throttle: &b.dynamic.Follower,
		},
		CatalogAge: b.catalogAge,
		Refresh:    func(ctx context.Context) error { return b.follower.Refresh(ctx) },
		Log:        b.log, Registerer: b.opts.Registry,
	})
	defaults := b.opts.Config.Topics.Defaults
	b.follower = metadata.NewFollower(b.opts.Catalog, &defaults, b.onImage, b.log)
	b.follower.OnRewound(b.onRewound)
	b.control = &controller{
		store: b.opts.Catalog, member: b.member, self: b.self(), follower: b.follower, log: b.log, logEnds: b.parts.LogEnds,
		metrics: newClusterMetrics(b.opts.Registry), balanceDelay: b.opts.Config.Broker.BalanceDelay, wake: make(chan struct{}, 1),
	}
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return b.reportLost(ctx, false) }, b.presentCopy, b.follower.Refresh,
		// Whoever is alone leads before it serves; in a cluster the controller sees to it.
		b.member.look, b.firstStep(),
	} {
		if err := b.opts.Patience.Await(ctx, step); err != nil {
			return err
		}
	}
	b.storeIncarnation()
	return nil
}

// firstStep is the controller's; each time but the first it begins by looking at what the one before has committed.
func (b *Broker) firstStep() func(context.Context) error {
	again := false
	return func(ctx context.Context) error {
		if again {
			if err := b.follower.Refresh(ctx); err != nil {
				return err
			}
			if err := b.member.look(ctx); err != nil {
				return err
			}
		}
		again = true
		return b.control.step(ctx)
	}
}

// self is this broker as a member of sets.
func (b *Broker) self() catalog.Member {
	return catalog.Member{Broker: b.id, Incarnation: b.registered.Incarnation}
}

// onImage is called with each new image before anybody sees it.
func (b *Broker) onImage(ctx context.Context, im *metadata.Image) {
	b.parts.Reconcile(ctx, im)
	b.control.poke()
	b.custody.follow(im)
	b.control.metrics.slots.Set(float64(b.slots.follow(im, b.self(), b.dropSlots)))
	if b.groups == nil {
		return // while opening
	}
	for _, t := range b.follower.Image().Topics() {
		if _, ok := im.TopicByID(t.ID); !ok {
			b.groups.TopicDeleted(t.ID)
		}
	}
}

// openHandlers builds what answers requests.
func (b *Broker) openHandlers(context.Context) error {
	g := b.opts.Config.Groups
	cfg := group.DefaultConfig()
	cfg.InitialRebalanceDelay = g.InitialRebalanceDelay
	cfg.MinSessionTimeout, cfg.MaxSessionTimeout = g.MinSession, g.MaxSession
	if g.MaxSize > 0 {
		cfg.MaxSize = g.MaxSize
	}
	var err error
	b.groups, err = group.New(group.Options{
		Offsets: b.opts.Catalog, Topics: topicNames{b.follower}, Guard: b.slots.guard, Group: cfg,
		Sure:      func() bool { return b.member.keeps() && b.follower.Age() < leaseLength },
		MaxMemory: int64(g.GroupMemory), MaxMetadata: g.OffsetMetadataMax, Retention: g.OffsetsRetention,
		Log: b.log.With("part", "group"), Metrics: group.NewMetrics(b.opts.Registry),
	})
	if err != nil {
		return err
	}
	defaults := b.opts.Config.Topics.Defaults
	b.handlers = handler.New(handler.Options{
		Broker: b.id, Cluster: b.cluster, Config: b.opts.Config, Defaults: &defaults,
		Metadata: b.follower, Controller: b.control, Partitions: b.parts, Groups: b.groups, Catalog: b.opts.Catalog, Dynamic: b.dynamic,
		Traffic: &b.traffic, ColdPace: pace.New(&b.traffic, int64(b.opts.Config.Tier.ColdReadFloor)),
		Log: b.log, Registerer: b.opts.Registry,
	})
	return nil
}

// Run serves until ctx ends, then stops in order and returns nil; or it returns the first failure, after
// the same stop. ErrFenced asks for exit code 3.
func (b *Broker) Run(ctx context.Context) error {
	b.ran = true
	// What serves clients ends first; what keeps the broker alive goes on until it has.
	clients, stopClients := context.WithCancel(context.WithoutCancel(ctx))
	defer stopClients()
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()

	var loops errgroup.Group
	run := func(name string, ctx context.Context, f func(context.Context) error) {
		loops.Go(func() error {
			err := f(ctx)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
			stopClients() // whoever ends, ends all
			return err
		})
	}
	loops.Go(func() error {
		defer stopClients()
		select {
		case <-ctx.Done():
			b.handOver()
		case <-clients.Done():
		}
		return nil
	})
	run("lease", background, b.keepMember)
	run("cluster state", background, b.follower.Run)
	run("controller", background, b.control.run)
	run("partitions", background, b.parts.Run)
	run("object tier", background, b.tier.Run)
	run("watch over the stores", background, b.watchStores)
	run("compaction", background, b.runCompaction)
	run("custody of the bucket", background, b.custody.run)
	run("groups", background, b.groups.Run)
	if b.http != nil {
		run("http", background, b.http.Run)
	}
	run("kafka", clients, func(ctx context.Context) error {
		b.serving.Store(true)
		defer b.serving.Store(false)
		defer stopBackground()
		return b.server.Run(ctx, b.handlers)
	})
	err := loops.Wait()
	b.handlers.Wait()
	return errors.Join(err, b.stop())
}

// stop ends leaderships, closes the logs, gives the registration back and marks the directory clean.
func (b *Broker) stop() error {
	err := b.parts.Close()
	b.saveCopy()
	b.release()
	if err != nil {
		return fmt.Errorf("close the logs; the next start scans them: %w", err)
	}
	if !b.kept && !b.stored.Load() {
		return nil // not every log has been compared with the tier: the next start does it
	}
	return b.data.MarkClean()
}

// Addr is the address that a listener is bound to, "" if there is none of that name.
func (b *Broker) Addr(listener string) string {
	if a := b.server.Addr(listener); a != nil {
		return a.String()
	}
	return ""
}

// HTTPAddr is the address of the HTTP side, "" if there is none.
func (b *Broker) HTTPAddr() string {
	if b.http == nil {
		return ""
	}
	return b.http.Addr().String()
}

// Close frees what Open built. It is idempotent, and follows Run where Run was called.
func (b *Broker) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	var errs []error
	if b.server != nil && !b.ran {
		errs = append(errs, b.server.Close())
	}
	if b.http != nil && !b.ran {
		errs = append(errs, b.http.Close())
	}
	if b.groups != nil {
		b.groups.Close()
	}
	if b.handlers != nil {
		b.handlers.Wait()
	}
	if b.member != nil {
		_ = b.member.close() // what it failed with, Run has returned
	}
	if b.parts != nil {
		errs = append(errs, b.parts.Close())
	}
	if b.tier != nil {
		errs = append(errs, b.tier.Close())
	}
	if b.lost.record != nil {
		errs = append(errs, b.lost.record.Close())
	}
	if b.chunks != nil {
		errs = append(errs, b.chunks.Close())
	}
	if b.data != nil {
		errs = append(errs, b.data.Close())
	}
	return errors.Join(errs...)
}
