package relational

import (
	"context"
	"fmt"

	"tidemark/catalog"
)

// Resign takes a broker out of partitions.
func (s *Store) Resign(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, ps []catalog.PartitionID) error {
	if len(ps) == 0 {
		return nil
	}
	return s.write(ctx, func(tx Tx) error {
		known := map[catalog.BrokerID]brokerRow{}
		var rewound bool
		var rows []partitionRow
		err := tx.Read(unlessRewound(&rewound),
			Stmt{SQL: s.sql.registered, Args: []any{encode([]catalog.BrokerID{b})}, Lock: "FOR KEY SHARE", Row: appendRegistered(known)},
			Stmt{SQL: s.sql.electing, Args: []any{namePartitions(ps)}, Lock: "FOR UPDATE OF p", Row: appendPartition(&rows)})
		if err != nil {
			return err
		}
		if row := known[b]; !row.found || row.incarnation != inc {
			return fmt.Errorf("%w: broker %d is not incarnation %d any more", catalog.ErrFenced, b, inc)
		}
		if err := refuseRewound(rewound); err != nil {
			return err
		}
		var changed []partitionRow
		for _, p := range rows {
			next, changes := catalog.ResignFrom(p.Partition, b)
			if !changes {
				continue
			}
			if p.Partition = next; p.Leader == catalog.NoBroker {
				p.incarnation = 0
			}
			changed = append(changed, p)
		}
		if len(changed) == 0 {
			return ErrDone
		}
		s.bump(tx)
		s.queuePartitions(tx, changed)
		return nil
	})
}
