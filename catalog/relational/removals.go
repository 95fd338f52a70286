package relational

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// StepRows bounds what one transaction removes or recomputes.
const StepRows = 1000

// doomed is a row that leaves the tier.
type doomed struct {
	id    catalog.SegmentID
	bytes int64
	next  record.Offset
	waste garbage
}

func appendDoomed(into *[]doomed) func(Row) error {
	*into = nil
	return func(r Row) error {
		var d doomed
		err := r.Scan((*int64)(&d.id), &d.bytes, (*int64)(&d.next), &d.waste.Key, &d.waste.Attempt)
		*into = append(*into, d)
		return err
	}
}

// drop queues the removal of rows and returns their bytes.
func (s *Store) drop(tx Tx, rows []doomed) (bytes int64) {
	if len(rows) == 0 {
		return 0
	}
	ids, waste := make([]catalog.SegmentID, len(rows)), make([]garbage, len(rows))
	for i, d := range rows {
		ids[i], waste[i] = d.id, d.waste
		bytes += d.bytes
	}
	tx.Queue(Stmt{SQL: s.sql.dropByIDs, Args: []any{encode(ids)}})
	s.queueGarbage(tx, waste)
	return bytes
}

// MoveStart raises start and turns up to StepRows rows below it into garbage.
func (s *Store) MoveStart(ctx context.Context, p catalog.PartitionID, g catalog.Guard, o record.Offset) (catalog.Bounds, bool, error) {
	var out catalog.Bounds
	var more, removed bool
	err := s.write(ctx, func(tx Tx) error {
		var row locked
		var below []doomed
		var rewound bool
		err := tx.Read(unlessRewound(&rewound), lockPartition(p, "FOR UPDATE", &row), Stmt{
			SQL:  `SELECT id, bytes, next, key, attempt` + ofPartition + ` AND base < $3 ORDER BY base LIMIT $4`,
			Args: []any{p.Topic.Hex(), p.Partition, int64(o), StepRows + 1},
			Row:  appendDoomed(&below),
		})
		if err := errors.Join(err, refuseRewound(rewound)); err != nil {
			return err
		}
		if err := row.holds(p, g, true); err != nil {
			return err
		}
		out, more, removed = row.bounds, false, false
		if o < row.bounds.Start {
			return ErrDone
		}
		for len(below) > 0 && below[len(below)-1].next > o {
			below = below[:len(below)-1]
		}
		if more = len(below) > StepRows; more {
			below = below[:StepRows]
		}
		out = catalog.RaiseStart(row.bounds, o)
		if out == row.bounds && len(below) == 0 {
			return ErrDone
		}
		removed = len(below) > 0
		out.TierBytes -= s.drop(tx, below)
		tx.Queue(setBounds(p, out))
		if removed {
			first := below[len(below)-1].next
			tx.Queue(breakChain(p, first, first))
		}
		return nil
	})
	if err != nil {
		return catalog.Bounds{}, false, err
	}
	if removed {
		// The move is committed whatever becomes of the step; its mark stays for the next one.
		_, _ = s.chainStep(ctx, p)
	}
	return out, more, nil
}

// DueGarbage lists what may be deleted now and marks it as listed, but for rows whose DELETE another caller has counted
// since they were read: marked as listed for the next DELETE they would be dropped without it, a day too early.
func (s *Store) DueGarbage(ctx context.Context, grace, again time.Duration, limit int) ([]catalog.GarbageRow, error) {
	var out []catalog.GarbageRow
	var fresh [2][]string // by DELETEs done
	row := func(r Row) error {
		var g catalog.GarbageRow
		var since int64
		var listed bool
		if err := r.Scan(&g.Key, &g.UploadID, &since, &g.Deletes, &listed); err != nil {
			return err
		}
		g.Since = time.UnixMilli(since)
		if len(out) < limit {
			out = append(out, g)
			if !listed {
				fresh[g.Deletes] = append(fresh[g.Deletes], g.Key)
			}
		}
		return nil
	}
	err := s.db.Read(ctx,
		Stmt{SQL: s.sql.garbageDue, Args: []any{0, grace.Milliseconds(), limit}, Row: row},
		Stmt{SQL: s.sql.garbageDue, Args: []any{1, again.Milliseconds(), limit}, Row: row})
	if err != nil || len(fresh[0])+len(fresh[1]) == 0 {
		return out, err
	}
	err = s.write(ctx, func(tx Tx) error {
		for deletes, keys := range fresh {
			if len(keys) > 0 {
				tx.Queue(Stmt{SQL: s.sql.garbageListed, Args: []any{encode(keys), deletes}})
			}
		}
		return nil
	})
	return out, err
}

// GarbageIs reads a garbage row and what might speak against it.
func (s *Store) GarbageIs(ctx context.Context, key string) (bool, error) {
	is := false
	err := s.db.Read(ctx, Stmt{
		SQL: `SELECT g.deletes FROM garbage g WHERE g.key = $1
			AND NOT EXISTS (SELECT 1 FROM segments s WHERE s.attempt = g.attempt)
			AND NOT EXISTS (SELECT 1 FROM upload_intents i WHERE i.attempt = g.attempt OR i.key = g.key)`,
		Args: []any{key},
		Row:  one(&is),
	})
	return is, err
}

// Deleted counts a DELETE of a listed row; in the first statement the second one drops it, so that the
// second statement finds nothing to count.
func (s *Store) Deleted(ctx context.Context, key string) error {
	return s.write(ctx, func(tx Tx) error {
		tx.Queue(
			Stmt{SQL: `DELETE FROM garbage WHERE key = $1 AND listed AND deletes > 0`, Args: []any{key}},
			Stmt{SQL: `UPDATE garbage SET deletes = deletes + 1, listed = FALSE, waits_from = ` + s.sql.d.Now +
				` WHERE key = $1 AND listed`, Args: []any{key}})
		return nil
	})
}

// CountGarbage counts the garbage rows.
func (s *Store) CountGarbage(ctx context.Context) (int64, error) {
	var n int64
	err := s.db.Read(ctx, Stmt{SQL: `SELECT count(*) FROM garbage`, Row: func(r Row) error { return r.Scan(&n) }})
	return n, err
}

// chainStep recomputes up to StepRows of a partition's max_ts_upto from its mark on; more says that
// the mark still stands (H25).
func (s *Store) chainStep(ctx context.Context, p catalog.PartitionID) (more bool, err error) {
	err = s.write(ctx, func(tx Tx) error {
		var row locked
		var rows []catalog.RunningMax
		before := record.NoTimestamp
		id := []any{p.Topic.Hex(), p.Partition}
		mark := ` (SELECT upto_from FROM partitions WHERE topic = $1::uuid AND partition = $2 AND upto_from >= 0)`
		err := tx.Read(lockPartition(p, "FOR UPDATE", &row),
			Stmt{SQL: `SELECT max_ts_upto` + ofPartition + ` AND base <` + mark + ` ORDER BY base DESC LIMIT 1`, Args: id,
				Row: func(r Row) error { return r.Scan(&before) }},
			Stmt{SQL: `SELECT id, base, max_ts, max_ts_upto` + ofPartition + ` AND base >=` + mark + ` ORDER BY base LIMIT $3`,
				Args: append(id, StepRows), Row: appendChain(&rows)})
		if err != nil {
			return err
		}
		more = false
		if !row.found || row.uptoFrom < 0 {
			return ErrDone
		}
		changed, settled := catalog.ChainMax(before, rows, record.Offset(row.uptoFirm))
		from, firm := int64(-1), int64(-1)
		if more = !settled && len(rows) == StepRows; more {
			from, firm = int64(rows[len(rows)-1].Base)+1, row.uptoFirm
		}
		s.queueChain(tx, changed)
		tx.Queue(Stmt{SQL: `UPDATE partitions SET upto_from = $3, upto_firm = $4 WHERE topic = $1::uuid AND partition = $2`, Args: append(id, from, firm)})
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("max_ts_upto of %s: %w", p, err)
	}
	return more, nil
}

func appendChain(into *[]catalog.RunningMax) func(Row) error {
	*into = nil
	return func(r Row) error {
		var m catalog.RunningMax
		err := r.Scan((*int64)(&m.ID), (*int64)(&m.Base), &m.Max, &m.Upto)
		*into = append(*into, m)
		return err
	}
}

func (s *Store) queueChain(tx Tx, rows []catalog.RunningMax) {
	type upto struct {
		ID   int64 `json:"id"`
		Upto int64 `json:"upto"`
	}
	if len(rows) == 0 {
		return
	}
	out := make([]upto, len(rows))
	for i, r := range rows {
		out[i] = upto{int64(r.ID), r.Upto}
	}
	tx.Queue(Stmt{SQL: s.sql.setUpto, Args: []any{encode(out)}})
}
