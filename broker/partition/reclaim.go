package partition

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tidemark/catalog"
)

// questions are what the leaderships that begin in one round ask the catalog: once for all of them, and only if there are
// any.
type questions struct {
	// lost says of which partitions the catalog has lost rows.
	lost func() (map[catalog.PartitionID]bool, error)
	// stand says how the partitions stand that this broker is to begin to lead.
	stand func() (map[catalog.PartitionID]catalog.Standing, error)
}

// askMax bounds the partitions of one question.
const askMax = 2000

// askStandings asks for what this broker is to lead and does not yet.
func (s *Set) askStandings(ctx context.Context, want []wanted) (map[catalog.PartitionID]catalog.Standing, error) {
	var ids []catalog.PartitionID
	for _, w := range want {
		if w.row.Leader != s.opts.Broker {
			continue
		}
		if p, err := s.Get(w.row.ID); err != nil || !p.leads(s.guardOf(w)) {
			ids = append(ids, w.row.ID)
		}
	}
	out := make(map[catalog.PartitionID]catalog.Standing, len(ids))
	for some := range slices.Chunk(ids, askMax) {
		rows, err := s.opts.Catalog.Standings(ctx, some)
		if err != nil {
			return nil, fmt.Errorf("ask how partitions stand that are to be led: %w", err)
		}
		maps.Copy(out, rows)
	}
	return out, nil
}

func (s *Set) guardOf(w wanted) catalog.Guard {
	return catalog.Guard{Broker: s.opts.Broker, Incarnation: s.opts.Incarnation, Epoch: w.row.LeaderEpoch}
}

// leads reports whether the leadership is in force.
func (p *Partition) leads(g catalog.Guard) bool {
	l := p.role.Load()
	return l != nil && l.guard == g
}

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
func (s *Set) lead(ctx context.Context, p *Partition, w wanted, ask questions) error {
	guard := s.guardOf(w)
	if p.leads(guard) {
		return p.Lead(ctx, w.row, catalog.Standing{}, s.opts.Incarnation, true)
	}
	known, err := ask.lost()
	if err != nil {
		return err
	}
	moved := false
	if known[p.ID] {
		if moved, err = s.env.tier.Reclaim(ctx, p.ID, guard); err != nil {
			return err
		}
	}
	rows, err := ask.stand()
	if err != nil {
		return err
	}
	now, ok := rows[p.ID]
	if !ok {
		return fmt.Errorf("lead %s-%d: %w", p.Name, p.ID.Partition, catalog.ErrNotFound)
	}
	if !moved {
		if err = p.Lead(ctx, w.row, now, s.opts.Incarnation, s.agrees(p, w)); !errors.Is(err, ErrHole) {
			return err
		}
		moved, again := s.env.tier.Reclaim(ctx, p.ID, guard)
		if again != nil || !moved {
			return errors.Join(err, again)
		}
	}
	row, err := s.opts.Catalog.Partition(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("lead %s-%d: %w", p.Name, p.ID.Partition, err)
	}
	return p.Lead(ctx, w.row, catalog.Standing{Partition: row, Left: true}, s.opts.Incarnation, false)
}
