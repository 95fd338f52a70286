package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering"
	"tidemark/tiering/cache"
	"tidemark/tiering/objstore"
)

// DirectCatalog is what reading without a broker asks of the catalog; [catalog.Store] has it.
type DirectCatalog interface {
	tiering.Catalog
	Cluster(ctx context.Context) (catalog.ClusterRow, error)
	Pull(ctx context.Context, since catalog.Position) (catalog.Changes, error)
}

// direct is a Source that reads objects past all brokers.
type direct struct {
	cat   DirectCatalog
	tier  *tiering.Tier
	cache *cache.Cache
	dir   string
	topic Topic
	id    catalog.TopicID
}

// FromStores reads the tiered part of a topic from catalog and bucket, and writes to neither. Catalog and bucket stay the
// caller's. ErrNoTopic, ErrNoBucket; tiering.ErrOtherCluster if the bucket is not the catalog's.
func FromStores(ctx context.Context, cat DirectCatalog, bucket objstore.Store, topic string, log *slog.Logger) (Source, error) {
	row, err := cat.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	all, err := cat.Pull(ctx, catalog.Position{})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all.Topics, func(t catalog.Topic) bool { return t.Name == topic })
	if i < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoTopic, topic)
	}
	d := &direct{cat: cat, id: all.Topics[i].ID, topic: Topic{Name: topic, ID: all.Topics[i].ID.String()}}
	for _, p := range all.Partitions {
		if p.ID.Topic == d.id {
			d.topic.Partitions++
		}
	}
	if d.dir, err = os.MkdirTemp("", "tidemark-replay-*"); err != nil {
		return nil, err
	}
	// One pass reads each chunk once: memory is enough, the folder stays all but empty.
	if d.cache, err = cache.Open(cache.Options{Dir: d.dir, MaxBytes: 1 << 30}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	d.tier, err = tiering.Open(ctx, tiering.Options{
		Store:   objstore.NewLimiter(objstore.LimiterOptions{}).For(objstore.ColdRead, readOnly{bucket}),
		Catalog: cat, Cache: d.cache, Cluster: row.ID, Generation: row.Generation, Logger: log,
		Holds: true, // what there is to replay has been written to it: an empty bucket is the wrong one
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if !d.tier.Ready() {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrNoBucket, d.tier.Trouble()), d.Close())
	}
	return d, nil
}

// Topic implements Source.
func (d *direct) Topic() Topic { return d.topic }

// Close implements Source.
func (d *direct) Close() error {
	var errs []error
	if d.tier != nil {
		errs = append(errs, d.tier.Close())
	}
	if d.cache != nil {
		errs = append(errs, d.cache.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

func (d *direct) partition(p int32) catalog.PartitionID {
	return catalog.PartitionID{Topic: d.id, Partition: p}
}

// Bounds implements Source: what is tiered is below every open transaction.
func (d *direct) Bounds(ctx context.Context, p int32) (start, end record.Offset, err error) {
	row, err := d.cat.Partition(ctx, d.partition(p))
	return row.Start, row.Tiered, err
}

// AtTime implements Source.
func (d *direct) AtTime(ctx context.Context, p int32, ms int64) (record.Offset, bool, error) {
	start, end, err := d.Bounds(ctx, p)
	if err != nil {
		return 0, false, err
	}
	f, ok, err := d.tier.OffsetForTime(ctx, tiering.TimeQuery{Partition: d.partition(p), From: start, Bound: end}, ms)
	return f.Offset, ok, err
}

// Read implements Source.
func (d *direct) Read(ctx context.Context, p int32, left Range, limit int64) (Block, error) {
	c, err := d.tier.Read(ctx, tiering.ReadRequest{
		Partition: d.partition(p), From: left.From, Bound: left.Until, MaxBytes: limit, AtLeastOne: true, Committed: true, Owner: uint64(p),
	})
	if errors.Is(err, tiering.ErrBelowStart) || errors.Is(err, tiering.ErrAboveTier) {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	if err != nil {
		return Block{}, err
	}
	defer c.Release()
	b := Block{Next: c.Next}
	if b.Batches, err = c.Bytes(); err != nil {
		return Block{}, err
	}
	for _, a := range c.Aborted {
		b.Aborted = append(b.Aborted, Aborted{a.ProducerID, a.First})
	}
	slices.SortFunc(b.Aborted, func(x, y Aborted) int { return cmp.Compare(x.First, y.First) })
	return b, nil
}

// readOnly is a bucket that takes nothing.
type readOnly struct{ objstore.Store }

var errReadOnly = errors.New("replay reads only")

// Put implements objstore.Store.
func (readOnly) Put(context.Context, string, objstore.Source, objstore.PutOptions) error {
	return errReadOnly
}

// Delete implements objstore.Store.
func (readOnly) Delete(context.Context, string, ...string) error { return errReadOnly }
