package cleaning

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"tidemark/broker/config"
	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/tiering"
	"tidemark/tiering/cache"
	"tidemark/tiering/objstore"
)

// Options of a compactor without a broker. Catalog and Objects stay the caller's.
type Options struct {
	Config   config.Config
	Catalog  catalog.Store
	Objects  objstore.Store
	CacheDir string // for chunks of cold reads, of which there are none
	// Patience bears a catalog that cannot be reached while the compactor opens; nil: the first such error ends it.
	Patience *catalog.Patience
	Log      *slog.Logger
	Registry *prometheus.Registry
}

// Compactor compacts the partitions of all topics, beside the brokers: who takes a partition's job first does
// it, and brokers with TIDEMARK_COMPACTION_WORKERS=0 leave all of it to compactors.
type Compactor struct {
	o        Options
	chunks   *cache.Cache
	tier     *tiering.Tier
	worker   *compaction.Worker
	follower *metadata.Follower
}

// errBucket: the tier has said why in the log.
var errBucket = errors.New("the bucket does not answer, or is empty although the catalog names objects; a compactor is of no use without it")

// Open makes a compactor; the bucket must answer and be this cluster's.
func Open(ctx context.Context, o Options) (_ *Compactor, err error) {
	c := &Compactor{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	var cluster catalog.ClusterRow
	var holds bool
	err = o.Patience.Await(ctx, func(ctx context.Context) error {
		if cluster, err = o.Catalog.Cluster(ctx); err == nil {
			holds, err = catalog.HoldsObjects(ctx, o.Catalog)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read from the catalog which cluster this is and whether there are objects: %w", err)
	}
	if c.chunks, err = cache.Open(cache.Options{Dir: o.CacheDir}); err != nil {
		return nil, err
	}
	counts := objstore.NewMetrics(o.Registry)
	var bandwidth [len(objstore.Classes)]int64
	bandwidth[objstore.Compaction] = int64(o.Config.Tier.CompactionBandwidth)
	limiter := objstore.NewLimiter(objstore.LimiterOptions{BytesPerSecond: bandwidth, Metrics: counts})
	bucket := limiter.For(objstore.Compaction, counts.Wrap(o.Objects))
	c.tier, err = tiering.Open(ctx, tiering.Options{
		Store: bucket, Catalog: o.Catalog, Cache: c.chunks, Cluster: cluster.ID, Generation: cluster.Generation, Holds: holds, Logger: o.Log,
	})
	if err != nil {
		return nil, err
	}
	if !c.tier.Ready() {
		return nil, errBucket
	}
	c.worker, err = compaction.NewWorker(compaction.Options{
		Catalog: o.Catalog, Objects: Objects{Tier: c.tier}, Broker: catalog.NoBroker, Incarnation: incarnation(),
		Workers: max(o.Config.Tier.CompactionWorkers, 1), Memory: int64(o.Config.Tier.CompactionMemory), Logger: o.Log, Metrics: o.Registry,
	})
	if err != nil {
		return nil, err
	}
	c.follower = metadata.NewFollower(o.Catalog, &c.o.Config.Topics.Defaults, func(context.Context, *metadata.Image) {}, o.Log)
	return c, o.Patience.Await(ctx, c.follower.Refresh)
}

// incarnation tells one compactor from another.
func incarnation() catalog.Incarnation {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(fmt.Sprintf("cleaning: the system's random source failed: %v", err))
	}
	return catalog.Incarnation(binary.BigEndian.Uint64(b[:])>>1 | 1)
}

// Run compacts until ctx ends, and returns nil then; or the first failure that retrying cannot mend.
func (c *Compactor) Run(ctx context.Context) error {
	c.o.Log.Info("compactor is up")
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.follower.Run(ctx) })
	g.Go(func() error { return c.worker.Run(ctx) })
	g.Go(func() error { return Follow(ctx, c.worker, c.partitions, c.o.Log) })
	return g.Wait()
}

// partitions lists all partitions whose topics use the object tier.
func (c *Compactor) partitions(ctx context.Context) ([]Partition, error) {
	var out []Partition
	var ids []catalog.PartitionID
	for _, t := range c.follower.Image().Topics() {
		if !t.Effective.RemoteStorageEnable {
			continue
		}
		for _, p := range t.Partitions {
			out = append(out, Partition{ID: p.ID, Policy: Policy(&t.Effective)})
			ids = append(ids, p.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	bounds, err := c.o.Catalog.PartitionBounds(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Mark = int64(bounds[out[i].ID].Tiered)
	}
	return out, nil
}

// Close frees what Open built; Run must have returned.
func (c *Compactor) Close() error {
	var errs []error
	if c.tier != nil {
		errs = append(errs, c.tier.Close())
	}
	if c.chunks != nil {
		errs = append(errs, c.chunks.Close())
	}
	return errors.Join(errs...)
}
