package relational

import (
	"context"
	"time"

	"tidemark/catalog"
)

// SegmentsAfter lists rows of all partitions by id.
func (s *Store) SegmentsAfter(ctx context.Context, after catalog.SegmentID, limit int) ([]catalog.Segment, error) {
	var out []catalog.Segment
	err := s.db.Read(ctx, Stmt{
		SQL:  `SELECT ` + segmentColumns + ` FROM segments WHERE id > $1 ORDER BY id LIMIT $2`,
		Args: []any{int64(after), limit},
		Row:  appendSegments(&out),
	})
	return out, err
}

// OffsetsAfter lists committed offsets of all groups by key.
func (s *Store) OffsetsAfter(ctx context.Context, after catalog.CommittedOffset, limit int) ([]catalog.CommittedOffset, error) {
	var out []catalog.CommittedOffset
	err := s.db.Read(ctx, Stmt{
		SQL: `SELECT group_id, topic::text, partition, committed, leader_epoch, metadata, ` + s.sql.d.Millis("commit_time") + ` FROM group_offsets
			WHERE (group_id, topic, partition) > ($1, $2::uuid, $3) ORDER BY group_id, topic, partition LIMIT $4`,
		Args: []any{after.Group, after.Partition.Topic.Hex(), after.Partition.Partition, limit},
		Row: func(r Row) error {
			var o catalog.CommittedOffset
			var topic string
			var at int64
			err := r.Scan(&o.Group, &topic, &o.Partition.Partition, (*int64)(&o.Offset), (*int32)(&o.LeaderEpoch), &o.Metadata, &at)
			if err != nil {
				return err
			}
			o.CommitTime = time.UnixMilli(at)
			o.Partition.Topic, err = topicID(topic)
			out = append(out, o)
			return err
		},
	})
	return out, err
}

// naming reads by what objects are named. The keys that it finds go into into.
func (s *Store) naming(objects []catalog.ObjectName, into map[string]catalog.Naming) []Stmt {
	clear(into)
	keys, attempts := make([]string, len(objects)), make([]string, len(objects))
	for i, o := range objects {
		keys[i], attempts[i] = o.Key, o.Attempt
	}
	find := func(table, column string, list []string, is catalog.Naming) Stmt {
		return Stmt{SQL: `SELECT key FROM ` + table + ` WHERE ` + column + ` IN ` + s.sql.d.List("$1", "text"), Args: []any{encode(list)}, Row: func(r Row) error {
			var key string
			err := r.Scan(&key)
			into[key] = is
			return err
		}}
	}
	// In this order, so that whoever is live counts as live.
	return []Stmt{
		find("garbage", "key", keys, catalog.NamedAsGarbage),
		find("upload_intents", "attempt", attempts, catalog.NamedByIntent),
		find("segments", "attempt", attempts, catalog.NamedLive),
	}
}

// Named says by what objects are named.
func (s *Store) Named(ctx context.Context, objects []catalog.ObjectName) (map[string]catalog.Naming, error) {
	out := make(map[string]catalog.Naming, len(objects))
	if len(objects) == 0 {
		return out, nil
	}
	return out, s.db.Read(ctx, s.naming(objects, out)...)
}

// DiscardStrays turns objects that nothing names into garbage. An intent for one of the keys that
// commits at the same time wins: GarbageIs is false while it, or the row that it becomes, is there.
func (s *Store) DiscardStrays(ctx context.Context, objects []catalog.ObjectName) (int, error) {
	var waste []garbage
	if len(objects) == 0 {
		return 0, nil
	}
	err := s.write(ctx, func(tx Tx) error {
		named := make(map[string]catalog.Naming, len(objects))
		if err := tx.Read(s.naming(objects, named)...); err != nil {
			return err
		}
		waste = nil
		for _, o := range objects {
			if named[o.Key] == catalog.NotNamed {
				waste = append(waste, garbage{Key: o.Key, Attempt: o.Attempt})
			}
		}
		if len(waste) == 0 {
			return ErrDone
		}
		s.queueGarbage(tx, waste)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(waste), nil
}

// RaiseGeneration raises the generation by one, once.
func (s *Store) RaiseGeneration(ctx context.Context, from int64) (catalog.ClusterRow, error) {
	err := s.write(ctx, func(tx Tx) error {
		tx.Queue(Stmt{SQL: `UPDATE cluster SET generation = generation + 1 WHERE generation = $1`, Args: []any{from}})
		return nil
	})
	if err != nil {
		return catalog.ClusterRow{}, err
	}
	return s.Cluster(ctx)
}
