package relational

import (
	"context"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
)

// marked reads the mark of a catalog that is being restored.
func marked(into *bool, lock string) Stmt {
	*into = false
	return Stmt{SQL: `SELECT level FROM cluster WHERE restoring`, Lock: lock, Row: one(into)}
}

func refuseUnmarked(is bool) error {
	if is {
		return nil
	}
	return fmt.Errorf("%w: the catalog is not being restored", catalog.ErrInvalid)
}

// Restoring reads the mark.
func (s *Store) Restoring(ctx context.Context) (bool, error) {
	var is bool
	err := s.db.Read(ctx, marked(&is, ""))
	return is, err
}

// BeginRestore marks an empty catalog and gives it the cluster's id.
func (s *Store) BeginRestore(ctx context.Context, c catalog.ClusterRow, version catalog.Version) (catalog.ClusterRow, error) {
	err := s.write(ctx, func(tx Tx) error {
		var restoring, topics, segments bool
		var id string
		err := tx.Read(Stmt{SQL: `SELECT id::text FROM cluster`, Lock: "FOR UPDATE", Row: func(r Row) error { return r.Scan(&id) }},
			marked(&restoring, ""),
			Stmt{SQL: `SELECT partitions FROM topics LIMIT 1`, Row: one(&topics)},
			Stmt{SQL: `SELECT records FROM segments LIMIT 1`, Row: one(&segments)})
		if err != nil {
			return err
		}
		have, err := topicID(id)
		switch {
		case err != nil:
			return err
		case restoring && have == c.ID:
			return ErrDone
		case restoring:
			return fmt.Errorf("%w: it is being restored for the cluster %s, not %s", catalog.ErrNotEmpty, have, c.ID)
		case topics || segments:
			return fmt.Errorf("%w: it holds topics of the cluster %s", catalog.ErrNotEmpty, have)
		}
		tx.Queue(
			Stmt{SQL: `UPDATE cluster SET id = $1::uuid, generation = $2, restoring = TRUE`, Args: []any{c.ID.Hex(), c.Generation}},
			Stmt{SQL: `UPDATE counter SET version = CASE WHEN version < $1 THEN $1 ELSE version END`, Args: []any{int64(version)}})
		s.bump(tx)
		return nil
	})
	if err != nil {
		return catalog.ClusterRow{}, err
	}
	return s.Cluster(ctx)
}

// EndRestore removes the mark.
func (s *Store) EndRestore(ctx context.Context) error {
	return s.write(ctx, func(tx Tx) error {
		var is bool
		if err := tx.Read(marked(&is, "FOR UPDATE")); err != nil {
			return err
		}
		if !is {
			return ErrDone
		}
		// Above whatever a broker that was away has seen: it reads everything, and presents no old copy (H2).
		tx.Queue(Stmt{SQL: `UPDATE counter SET version = version + $1`, Args: []any{int64(1) << 32}})
		s.bump(tx)
		tx.Queue(
			Stmt{SQL: `UPDATE counter SET complete_from = version`},
			Stmt{SQL: `UPDATE controller SET repaired = ` + currentVersion},
			Stmt{SQL: `UPDATE cluster SET restoring = FALSE`})
		return nil
	})
}

// RestoreBrokers writes brokers that nobody has registered yet.
func (s *Store) RestoreBrokers(ctx context.Context, bs []catalog.Broker) error {
	return s.write(ctx, func(tx Tx) error {
		var is bool
		if err := tx.Read(marked(&is, "FOR SHARE")); err != nil {
			return err
		}
		if err := refuseUnmarked(is); err != nil {
			return err
		}
		if len(bs) == 0 {
			return ErrDone
		}
		s.bump(tx)
		for _, b := range bs {
			tx.Queue(Stmt{
				SQL: `INSERT INTO brokers (id, incarnation, rack, listeners, live, lease, attempt, version)
					VALUES ($1, $2, $3, $4::text::jsonb, FALSE, 0, '', ` + currentVersion + `) ON CONFLICT (id) DO NOTHING`,
				Args: []any{int32(b.ID), int64(b.Incarnation), b.Rack, encode(b.Listeners)},
			})
		}
		return nil
	})
}

// RestoreTopic writes a topic with its partitions.
func (s *Store) RestoreTopic(ctx context.Context, t catalog.Topic, ps []catalog.Partition) error {
	if t.ID == (catalog.TopicID{}) || t.Name == "" || len(ps) == 0 {
		return fmt.Errorf("%w: topic %q with %d partitions", catalog.ErrInvalid, t.Name, len(ps))
	}
	rows := make([]partitionRow, len(ps))
	for i, p := range ps {
		p.Leader = catalog.NoBroker
		rows[i] = partitionRow{Partition: p}
	}
	return s.write(ctx, func(tx Tx) error {
		var is bool
		var have topicRow
		if err := tx.Read(marked(&is, "FOR SHARE"), readTopic(`id = $1::uuid`, t.ID.Hex(), "", &have)); err != nil {
			return err
		}
		if err := refuseUnmarked(is); err != nil {
			return err
		}
		if have.found {
			return ErrDone
		}
		s.bump(tx)
		tx.Queue(Stmt{
			SQL:  `INSERT INTO topics (id, name, deleted, partitions, version) VALUES ($1::uuid, $2, FALSE, $3, ` + currentVersion + `)`,
			Args: []any{t.ID.Hex(), t.Name, len(rows)},
		})
		s.queueConfigs(tx, t.ID, t.Configs)
		tx.Queue(Stmt{SQL: s.sql.addPartitions, Args: []any{storePartitions(rows)}})
		for _, p := range ps {
			if p.Start > 0 {
				tx.Queue(setBounds(p.ID, catalog.Bounds{Start: p.Start, Tiered: p.Start}))
			}
		}
		return nil
	})
}

// RestoreSegments adds rows to a partition's tier.
func (s *Store) RestoreSegments(ctx context.Context, p catalog.PartitionID, rows []catalog.Segment) (catalog.Bounds, error) {
	var out catalog.Bounds
	err := s.write(ctx, func(tx Tx) error {
		var is bool
		var row locked
		upto := record.NoTimestamp
		err := tx.Read(marked(&is, "FOR SHARE"), lockPartition(p, "FOR UPDATE", &row),
			Stmt{SQL: `SELECT max_ts_upto` + ofPartition + ` ORDER BY base DESC LIMIT 1`, Args: []any{p.Topic.Hex(), p.Partition},
				Row: func(r Row) error { return r.Scan(&upto) }})
		if err != nil {
			return err
		}
		if err := refuseUnmarked(is); err != nil {
			return err
		}
		if !row.found {
			return fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, p)
		}
		out = row.bounds
		added := 0
		for _, seg := range rows {
			if seg.Next <= row.bounds.Tiered {
				continue
			}
			if seg.Partition != p {
				return fmt.Errorf("%w: a row of %s for %s", catalog.ErrInvalid, seg.Partition, p)
			}
			if out, err = catalog.CheckPublish(out, seg); err != nil {
				return fmt.Errorf("partition %s: %w", p, err)
			}
			upto = max(upto, seg.MaxTimestamp)
			seg.MaxTimestampUpto = upto
			tx.Queue(insertSegment(seg))
			added++
		}
		if added == 0 {
			return ErrDone
		}
		tx.Queue(setBounds(p, out))
		return nil
	})
	if err != nil {
		return catalog.Bounds{}, err
	}
	return out, nil
}

// RestoreOffsets writes committed offsets.
func (s *Store) RestoreOffsets(ctx context.Context, os []catalog.CommittedOffset) error {
	if len(os) == 0 {
		return nil
	}
	return s.write(ctx, func(tx Tx) error {
		var is bool
		known := map[catalog.TopicID]bool{}
		err := tx.Read(marked(&is, "FOR SHARE"), Stmt{SQL: `SELECT id::text FROM topics WHERE NOT deleted`, Row: func(r Row) error {
			var hex string
			if err := r.Scan(&hex); err != nil {
				return err
			}
			id, err := topicID(hex)
			known[id] = true
			return err
		}})
		if err != nil {
			return err
		}
		if err := refuseUnmarked(is); err != nil {
			return err
		}
		var rows []storedOffset
		for _, o := range os {
			if known[o.Partition.Topic] {
				rows = append(rows, storedOffset{o.Group, o.Partition.Topic.Hex(), o.Partition.Partition, int64(o.Offset), int32(o.LeaderEpoch),
					o.Metadata, o.CommitTime.UnixMilli()})
			}
		}
		if len(rows) == 0 {
			return ErrDone
		}
		tx.Queue(Stmt{SQL: s.sql.commit, Args: []any{encode(rows)}})
		return nil
	})
}
