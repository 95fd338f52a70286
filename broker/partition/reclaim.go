package partition

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
)

// lostRows says of which partitions the catalog has lost rows; it is asked at most once in a round, and only if a
// leadership begins.
type lostRows func() (map[catalog.PartitionID]bool, error)

func (s *Set) askLost(ctx context.Context) (map[catalog.PartitionID]bool, error) {
	ids, err := s.opts.Catalog.LostPartitions(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what the catalog has lost: %w", err)
	}
	out := make(map[catalog.PartitionID]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out, nil
}

// lead begins or goes on with the leadership that the image names. Where the catalog has lost rows of the partition, or
// shows a tier that ends below this log's begin, what was published is published again first: a log that has been freed
// up to there would else be led without the records below it (H3, R18).
func (s *Set) lead(ctx context.Context, p *Partition, w wanted, lost lostRows) error {
	guard := catalog.Guard{Broker: s.opts.Broker, Incarnation: s.opts.Incarnation, Epoch: w.row.LeaderEpoch}
	clean, moved := s.agrees(p, w), false
	if l := p.role.Load(); l == nil || l.guard != guard {
		known, err := lost()
		if err != nil {
			return err
		}
		if known[p.ID] {
			if moved, err = s.env.tier.Reclaim(ctx, p.ID, guard); err != nil {
				return err
			}
		}
	}
	err := p.Lead(ctx, w.row, s.opts.Incarnation, clean && !moved)
	if !errors.Is(err, ErrHole) || moved {
		return err
	}
	moved, again := s.env.tier.Reclaim(ctx, p.ID, guard)
	if again != nil || !moved {
		return errors.Join(err, again)
	}
	return p.Lead(ctx, w.row, s.opts.Incarnation, false)
}
