package broker

import (
	"context"

	"golang.org/x/sync/errgroup"

	"tidemark/broker/cleaning"
	"tidemark/broker/pace"
	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/record"
)

// openCompaction makes the worker that compacts and merges what this broker leads.
func (b *Broker) openCompaction(context.Context) (err error) {
	t := b.opts.Config.Tier
	b.compactor, err = compaction.NewWorker(compaction.Options{
		Catalog: b.opts.Catalog, Objects: cleaning.Objects{Tier: b.tier, Pace: pace.New(&b.traffic, int64(t.CompactionFloor))},
		Broker: b.id, Incarnation: b.registered.Incarnation,
		Workers: t.CompactionWorkers, WatchOnly: t.CompactionWorkers == 0, Cleaned: b.cleaned,
		Memory: int64(t.CompactionMemory), Logger: b.log, Metrics: b.opts.Registry,
	})
	return err
}

// cleaned sends readers to the object tier for what has been compacted.
func (b *Broker) cleaned(id catalog.PartitionID, to record.Offset) {
	if p, err := b.parts.Get(id); err == nil {
		p.SetClean(to)
	}
}

func (b *Broker) runCompaction(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.compactor.Run(ctx) })
	g.Go(func() error { return cleaning.Follow(ctx, b.compactor, b.toCompact, b.log) })
	return g.Wait()
}

// toCompact lists the led partitions that have something in the object tier.
func (b *Broker) toCompact(context.Context) ([]cleaning.Partition, error) {
	all := b.parts.All()
	out := make([]cleaning.Partition, 0, len(all))
	for _, p := range all {
		if cfg := p.Config(); cfg.RemoteStorageEnable && p.TierEnd() > 0 && p.LeaderEpoch() != record.NoEpoch {
			out = append(out, cleaning.Partition{ID: p.ID, Policy: cleaning.Policy(cfg), Mark: int64(p.TierEnd())})
		}
	}
	return out, nil
}
