package relational

import (
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
)

// Move begins, changes or cancels moves of partitions.
func (s *Store) Move(ctx context.Context, ms []catalog.Move) ([]error, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	ids := make([]catalog.PartitionID, len(ms))
	for i, m := range ms {
		ids[i] = m.ID
	}
	errs := make([]error, len(ms))
	err := s.write(ctx, func(tx Tx) error {
		var live []catalog.Broker
		var rows []partitionRow
		var rewound bool
		err := tx.Read(unlessRewound(&rewound), lockLive(&live),
			Stmt{SQL: s.sql.electing, Args: []any{namePartitions(ids)}, Lock: "FOR UPDATE OF p", Row: appendPartition(&rows)})
		if err := errors.Join(err, refuseRewound(rewound)); err != nil {
			return err
		}
		changed := beginMoves(ms, rows, live, errs)
		if len(changed) == 0 {
			return ErrDone
		}
		s.bump(tx)
		s.queuePartitions(tx, changed)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// beginMoves fills errs and returns the rows that change.
func beginMoves(ms []catalog.Move, rows []partitionRow, live []catalog.Broker, errs []error) []partitionRow {
	alive := make(map[catalog.BrokerID]bool, len(live))
	for _, b := range live {
		alive[b.ID] = !b.Leaving
	}
	byID := make(map[catalog.PartitionID]*partitionRow, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	var changed []partitionRow
	for i, m := range ms {
		row, ok := byID[m.ID]
		if !ok {
			errs[i] = fmt.Errorf("%w: %s, or it is named twice", catalog.ErrUnknownTopic, m.ID)
			continue
		}
		delete(byID, m.ID)
		next := *row
		next.Partition, errs[i] = catalog.BeginMove(row.Partition, m, func(b catalog.BrokerID) bool { return alive[b] })
		if errs[i] != nil {
			continue
		}
		if next.Leader == catalog.NoBroker {
			next.incarnation = 0
		}
		changed = append(changed, next)
	}
	return changed
}
