package relational

import (
	"context"
	"time"

	"tidemark/catalog"
)

const (
	ledgerAge    = 30 * 24 * time.Hour // a position older than that reads everything (H2)
	tombstoneAge = 24 * time.Hour      // H13
)

// PurgeStep turns rows and intents of deleted topics into garbage, drops what is then empty, prunes the
// ledger and the tombstones, and carries one unfinished max_ts_upto on.
func (s *Store) PurgeStep(ctx context.Context, limit int) (bool, error) {
	if limit <= 0 {
		limit = StepRows
	}
	pending, err := s.purgeTopics(ctx, limit)
	if err != nil {
		return false, err
	}
	if err := s.prune(ctx); err != nil {
		return false, err
	}
	broken, found, err := s.brokenChain(ctx)
	if err != nil || !found {
		return pending, err
	}
	if _, err := s.chainStep(ctx, broken); err != nil {
		return false, err
	}
	_, left, err := s.brokenChain(ctx)
	return pending || left, err
}

func (s *Store) purgeTopics(ctx context.Context, limit int) (more bool, err error) {
	err = s.write(ctx, func(tx Tx) error {
		var rows []doomed
		var left []catalog.Intent
		var dead bool
		const ofDead = ` JOIN topics t ON t.id = x.topic AND t.deleted `
		err := tx.Read(
			Stmt{SQL: `SELECT partitions FROM topics WHERE deleted LIMIT 1`, Row: one(&dead)},
			Stmt{SQL: `SELECT x.id, x.bytes, x.next, x.key, x.attempt FROM segments x` + ofDead + `LIMIT $1`, Args: []any{limit},
				Lock: "FOR UPDATE OF x SKIP LOCKED", Row: appendDoomed(&rows)},
			Stmt{SQL: s.sql.intents + `WHERE topic IN (SELECT id FROM topics WHERE deleted) LIMIT $1`, Args: []any{limit},
				Lock: "FOR UPDATE SKIP LOCKED", Row: appendIntents(&left)})
		if err != nil {
			return err
		}
		more = len(rows) == limit || len(left) == limit
		if !dead {
			return ErrDone
		}
		s.drop(tx, rows)
		waste, attempts := intentGarbage(left)
		if len(attempts) > 0 {
			tx.Queue(Stmt{SQL: s.sql.dropTaken, Args: []any{encode(attempts)}})
		}
		s.queueGarbage(tx, waste)
		tx.Queue(
			Stmt{SQL: `DELETE FROM lost_segments WHERE topic IN (SELECT id FROM topics WHERE deleted)`},
			Stmt{SQL: `DELETE FROM jobs WHERE topic IN (SELECT id FROM topics WHERE deleted)`},
			Stmt{SQL: `DELETE FROM partitions WHERE topic IN (SELECT id FROM topics WHERE deleted)
				AND NOT EXISTS (SELECT 1 FROM segments s WHERE s.topic = partitions.topic AND s.partition = partitions.partition)
				AND NOT EXISTS (SELECT 1 FROM upload_intents i WHERE i.topic = partitions.topic AND i.partition = partitions.partition)`},
			Stmt{SQL: `DELETE FROM topics WHERE deleted AND NOT EXISTS (SELECT 1 FROM partitions p WHERE p.topic = topics.id)`})
		return nil
	})
	return more, err
}

// prune drops old rows of the ledger and old tombstones; who stands below those reads everything.
func (s *Store) prune(ctx context.Context) error {
	var stale int64
	count := func(r Row) error {
		var n int64
		err := r.Scan(&n)
		stale += n
		return err
	}
	d := s.sql.d
	err := s.db.Read(ctx,
		Stmt{SQL: `SELECT count(*) FROM tombstones WHERE at < ` + d.Ago("$1"), Args: []any{tombstoneAge.Milliseconds()}, Row: count},
		Stmt{SQL: `SELECT count(*) FROM (SELECT 1 FROM ledger WHERE at < ` + d.Ago("$1") + ` AND version < ` + currentVersion + ` LIMIT 1) AS l`, Args: []any{ledgerAge.Milliseconds()}, Row: count})
	if err != nil || stale == 0 {
		return err
	}
	return s.write(ctx, func(tx Tx) error {
		tx.Queue(
			Stmt{SQL: `UPDATE counter SET complete_from = coalesce((SELECT max(version) FROM tombstones WHERE at < ` + d.Ago("$1") + `), complete_from)`,
				Args: []any{tombstoneAge.Milliseconds()}},
			Stmt{SQL: s.sql.pruneTombstones, Args: []any{tombstoneAge.Milliseconds()}},
			Stmt{SQL: s.sql.pruneLedger, Args: []any{ledgerAge.Milliseconds()}})
		return nil
	})
}

func (s *Store) brokenChain(ctx context.Context) (p catalog.PartitionID, found bool, err error) {
	err = s.db.Read(ctx, Stmt{SQL: `SELECT topic::text, partition FROM partitions WHERE upto_from >= 0 LIMIT 1`, Row: func(r Row) error {
		var hex string
		if err := r.Scan(&hex, &p.Partition); err != nil {
			return err
		}
		found = true
		p.Topic, err = topicID(hex)
		return err
	}})
	return p, found, err
}
