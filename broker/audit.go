package broker

import (
	"context"
	"fmt"

	"tidemark/broker/admin"
	"tidemark/catalog"
	"tidemark/tiering/audit"
)

// Verify implements admin.Audit.
func (s state) Verify(ctx context.Context, topic string, deep bool, report func(audit.Problem, audit.Progress)) (audit.Progress, error) {
	req := audit.Request{Deep: deep, Bucket: true}
	for _, t := range s.b.follower.Image().Topics() {
		if topic != "" && t.Name != topic {
			continue
		}
		for _, p := range t.Partitions {
			req.Partitions = append(req.Partitions, audit.Partition{ID: p.ID, Topic: t.Name})
		}
		if topic != "" {
			req.Topic = &t.ID
		}
	}
	if topic != "" && req.Topic == nil {
		return audit.Progress{}, fmt.Errorf("%w: topic %q", admin.ErrUnknown, topic)
	}
	return s.b.custody.auditor.Verify(ctx, req, report)
}

// Strays implements admin.Audit.
func (s state) Strays(ctx context.Context, each func(audit.Stray)) (audit.Census, error) {
	return s.b.custody.auditor.Strays(ctx, each)
}

// Discard implements admin.Audit.
func (s state) Discard(ctx context.Context, percent float64) (int64, audit.Census, error) {
	if !s.b.custody.mayRemove() {
		return 0, audit.Census{}, fmt.Errorf("%w: the catalog has not been found to fit the bucket; /readyz says why", audit.ErrRefused)
	}
	return s.b.custody.auditor.Discard(ctx, percent)
}

// AgreeRewound implements admin.Audit: a catalog that went back in time becomes a generation of its own,
// in the catalog first, so that an unclear outcome may be repeated.
func (s state) AgreeRewound(ctx context.Context) (int64, error) {
	b := s.b
	row, err := b.opts.Catalog.Cluster(ctx)
	if err != nil {
		return 0, err
	}
	if b.custody.rewound.Load() == nil {
		return row.Generation, fmt.Errorf("%w: this broker has not found its catalog to have gone back in time", catalog.ErrInvalid)
	}
	if row, err = b.opts.Catalog.RaiseGeneration(ctx, row.Generation); err != nil {
		return 0, err
	}
	if err := b.tier.SetGeneration(ctx, row.Generation); err != nil {
		return 0, fmt.Errorf("move the generation in the bucket; ask again: %w", err)
	}
	b.custody.rewound.Store(nil)
	b.custody.sound.Store(true)
	b.custody.writer.Wake()
	b.log.Warn("an operator agreed to the catalog that went back in time", "generation", row.Generation)
	return row.Generation, nil
}
