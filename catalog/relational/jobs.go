package relational

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tidemark/catalog"
)

const jobColumns = `SELECT id, topic::text, partition, kind, broker, incarnation, epoch, lease FROM jobs`

func appendJobs(into *[]catalog.Job) func(Row) error {
	*into = nil
	return func(r Row) error {
		var j catalog.Job
		var topic string
		err := r.Scan(&j.ID, &topic, &j.Partition.Partition, &j.Kind, (*int32)(&j.Broker), (*int64)(&j.Incarnation), &j.Epoch, &j.Lease)
		if err != nil {
			return err
		}
		j.Partition.Topic, err = topicID(topic)
		*into = append(*into, j)
		return err
	}
}

func lockJob(id int64, lock string, into *[]catalog.Job) Stmt {
	return Stmt{SQL: jobColumns + ` WHERE id = $1`, Args: []any{id}, Lock: lock, Row: appendJobs(into)}
}

// held judges a job by its locked rows.
func held(rows []catalog.Job, j catalog.Job) error {
	if len(rows) == 0 {
		return fmt.Errorf("%w: job %d is over", catalog.ErrFenced, j.ID)
	}
	if r := rows[0]; r.Epoch != j.Epoch || r.Broker != j.Broker || r.Incarnation != j.Incarnation {
		return fmt.Errorf("%w: job %d is broker %d's at epoch %d, not broker %d's at %d", catalog.ErrFenced, j.ID, r.Broker, r.Epoch, j.Broker, j.Epoch)
	}
	return nil
}

// TakeJob makes a job or takes it over.
func (s *Store) TakeJob(ctx context.Context, p catalog.PartitionID, kind string, b catalog.BrokerID, inc catalog.Incarnation, seen int64) (catalog.Job, error) {
	var out catalog.Job
	err := s.write(ctx, func(tx Tx) error {
		var broker brokerRow
		var live bool
		var row locked
		var jobs []catalog.Job
		err := tx.Read(lockBroker(b, "FOR KEY SHARE", &broker), lockTopic(p.Topic, &live), lockPartition(p, "FOR SHARE", &row),
			Stmt{SQL: jobColumns + ` WHERE topic = $1::uuid AND partition = $2 AND kind = $3`, Args: []any{p.Topic.Hex(), p.Partition, kind},
				Lock: "FOR UPDATE", Row: appendJobs(&jobs)})
		switch {
		case err != nil:
			return err
		case b != catalog.NoBroker && (!broker.live || broker.incarnation != inc):
			return fmt.Errorf("%w: broker %d is not incarnation %d any more", catalog.ErrFenced, b, inc)
		case !live || !row.found:
			return fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, p)
		}
		out = catalog.Job{Partition: p, Kind: kind, Broker: b, Incarnation: inc, Epoch: 1, Lease: 1}
		if len(jobs) == 0 {
			tx.Queue(Stmt{
				SQL: `INSERT INTO jobs (topic, partition, kind, broker, incarnation, epoch, lease)
					VALUES ($1::uuid, $2, $3, $4, $5, 1, 1) RETURNING id`,
				Args: []any{p.Topic.Hex(), p.Partition, kind, int32(b), int64(inc)},
				Row:  func(r Row) error { return r.Scan(&out.ID) },
			})
			return nil
		}
		old := jobs[0]
		if mine := old.Broker == b && old.Incarnation == inc; !mine && old.Lease != seen {
			out = old
			return fmt.Errorf("%w: %s of %s by broker %d at lease %d", catalog.ErrHeld, kind, p, old.Broker, old.Lease)
		}
		out.ID, out.Epoch, out.Lease = old.ID, old.Epoch+1, old.Lease+1
		tx.Queue(Stmt{SQL: `UPDATE jobs SET broker = $2, incarnation = $3, epoch = $4, lease = $5 WHERE id = $1`,
			Args: []any{out.ID, int32(b), int64(inc), out.Epoch, out.Lease}})
		return nil
	})
	if errors.Is(err, catalog.ErrHeld) {
		return out, err
	}
	if err != nil {
		return catalog.Job{}, err
	}
	return out, nil
}

// RenewJob raises a job's lease.
func (s *Store) RenewJob(ctx context.Context, j catalog.Job) (catalog.Job, error) {
	found := false
	err := s.db.Write(ctx, Leases, func(tx Tx) error {
		tx.Queue(Stmt{
			SQL:  `UPDATE jobs SET lease = lease + 1 WHERE id = $1 AND broker = $2 AND incarnation = $3 AND epoch = $4 RETURNING lease`,
			Args: []any{j.ID, int32(j.Broker), int64(j.Incarnation), j.Epoch},
			Row: func(r Row) error {
				found = true
				return r.Scan(&j.Lease)
			},
		})
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: job %d at epoch %d", catalog.ErrFenced, j.ID, j.Epoch)
	}
	return j, err
}

// EndJob deletes a job; its left intents become garbage. A job that is gone has ended.
func (s *Store) EndJob(ctx context.Context, j catalog.Job) error {
	return s.write(ctx, func(tx Tx) error {
		var jobs []catalog.Job
		var left []catalog.Intent
		err := tx.Read(lockJob(j.ID, "FOR UPDATE", &jobs),
			Stmt{SQL: s.sql.intents + `WHERE job = $1 ORDER BY attempt`, Args: []any{j.ID}, Lock: "FOR UPDATE", Row: appendIntents(&left)})
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			return ErrDone
		}
		if err := held(jobs, j); err != nil {
			return err
		}
		rows, attempts := intentGarbage(left)
		tx.Queue(Stmt{SQL: `DELETE FROM jobs WHERE id = $1`, Args: []any{j.ID}})
		if len(attempts) > 0 {
			tx.Queue(Stmt{SQL: s.sql.dropTaken, Args: []any{encode(attempts)}})
		}
		s.queueGarbage(tx, rows)
		return nil
	})
}

// PutJobIntent writes an intent under a job.
func (s *Store) PutJobIntent(ctx context.Context, j catalog.Job, in catalog.Intent) error {
	in.Job = j.ID
	in.Guard = catalog.Guard{Broker: j.Broker, Incarnation: j.Incarnation}
	return s.write(ctx, func(tx Tx) error {
		var live bool
		var jobs []catalog.Job
		var k known
		stmts := []Stmt{lockTopic(in.Partition.Topic, &live), lockJob(j.ID, "FOR SHARE", &jobs)}
		if err := tx.Read(append(stmts, s.readAttempt(in, &k)...)...); err != nil {
			return err
		}
		if !live || in.Partition != j.Partition {
			return fmt.Errorf("%w: %s for a job of %s", catalog.ErrUnknownTopic, in.Partition, j.Partition)
		}
		if err := held(jobs, j); err != nil {
			return err
		}
		add, err := k.admit(in)
		if err != nil {
			return err
		}
		if !add {
			return ErrDone
		}
		tx.Queue(s.insertIntent(in, j.Epoch))
		return nil
	})
}

// swap is what a swap reads under its locks.
type swap struct {
	live      bool
	row       locked
	jobs      []catalog.Job
	intents   []catalog.Intent
	old, done []catalog.Segment
	upto      int64 // before the first row
}

// Swap replaces whole live rows.
func (s *Store) Swap(ctx context.Context, j catalog.Job, old []catalog.SegmentID, replacement []catalog.Segment) error {
	if len(old) == 0 || len(replacement) == 0 {
		return fmt.Errorf("%w: a swap of %d rows by %d", catalog.ErrInvalid, len(old), len(replacement))
	}
	rows := slices.Clone(replacement)
	slices.SortFunc(rows, func(a, b catalog.Segment) int { return int(min(max(a.Base-b.Base, -1), 1)) })
	attempts := make([]string, len(rows))
	for i, r := range rows {
		attempts[i] = r.Attempt
	}
	removed := false
	err := s.write(ctx, func(tx Tx) error {
		var w swap
		p := j.Partition
		err := tx.Read(lockTopic(p.Topic, &w.live), lockPartition(p, "FOR UPDATE", &w.row), lockJob(j.ID, "FOR UPDATE", &w.jobs),
			Stmt{SQL: s.sql.intents + `WHERE job = $1 ORDER BY attempt`, Args: []any{j.ID}, Lock: "FOR UPDATE", Row: appendIntents(&w.intents)},
			Stmt{SQL: s.sql.byIDs, Args: []any{encode(old)}, Row: appendSegments(&w.old)},
			Stmt{SQL: s.sql.byAttempts, Args: []any{encode(attempts)}, Row: appendSegments(&w.done)},
			lastUpto(p, rows[0].Base, &w.upto))
		if err != nil {
			return err
		}
		removed = false
		if len(w.done) == len(rows) {
			return ErrDone
		}
		b, err := w.judge(j, old, rows)
		if err != nil {
			return fmt.Errorf("job %d of %s: %w", j.ID, p, err)
		}
		removed = true
		s.queueSwap(tx, &w, rows)
		tx.Queue(setBounds(p, b), breakChain(p, rows[0].Base, rows[len(rows)-1].Next))
		return nil
	})
	if err == nil && removed {
		// The swap is committed whatever becomes of the step; its mark stays for the next one.
		_, _ = s.chainStep(ctx, j.Partition)
	}
	return err
}

// judge is the bounds after the swap, or why it cannot be.
func (w *swap) judge(j catalog.Job, old []catalog.SegmentID, rows []catalog.Segment) (catalog.Bounds, error) {
	b := w.row.bounds
	if !w.live || !w.row.found {
		return b, catalog.ErrUnknownTopic
	}
	if err := held(w.jobs, j); err != nil {
		return b, err
	}
	for _, r := range rows {
		if r.Partition != j.Partition {
			return b, fmt.Errorf("%w: a row of %s", catalog.ErrInvalid, r.Partition)
		}
		if err := matches(w.intents, r, j.ID); err != nil {
			return b, err
		}
	}
	if err := w.inputs(j.Partition, old); err != nil {
		return b, err
	}
	delta, err := catalog.CheckSwap(w.old, rows)
	b.TierBytes += delta
	return b, err
}

// inputs makes sure that all rows that are to be replaced are live and the partition's.
func (w *swap) inputs(p catalog.PartitionID, old []catalog.SegmentID) error {
	if len(w.old) != len(old) {
		return fmt.Errorf("%w: %d of the %d rows are live", catalog.ErrNotContiguous, len(w.old), len(old))
	}
	for _, r := range w.old {
		if r.Partition != p {
			return fmt.Errorf("%w: row %d is of %s", catalog.ErrInvalid, r.ID, r.Partition)
		}
	}
	return nil
}

func (s *Store) queueSwap(tx Tx, w *swap, rows []catalog.Segment) {
	out := make([]doomed, len(w.old))
	for i, r := range w.old {
		out[i] = doomed{id: r.ID, waste: garbage{Key: r.Key, Attempt: r.Attempt}}
	}
	s.drop(tx, out)
	attempts := make([]string, len(rows))
	for i, r := range rows {
		attempts[i] = r.Attempt
	}
	tx.Queue(Stmt{SQL: s.sql.dropTaken, Args: []any{encode(attempts)}})
	upto := w.upto
	for _, r := range rows {
		upto = max(upto, r.MaxTimestamp)
		r.MaxTimestampUpto = upto
		tx.Queue(insertSegment(r))
	}
}

// MarkClean notes that a compaction has been through rows.
func (s *Store) MarkClean(ctx context.Context, j catalog.Job, rows []catalog.SegmentID, since int64) error {
	return s.write(ctx, func(tx Tx) error {
		var jobs []catalog.Job
		if err := tx.Read(lockJob(j.ID, "FOR SHARE", &jobs)); err != nil {
			return err
		}
		if err := held(jobs, j); err != nil {
			return err
		}
		tx.Queue(Stmt{SQL: s.sql.markClean, Args: []any{encode(rows), j.Partition.Topic.Hex(), j.Partition.Partition, since}})
		return nil
	})
}
