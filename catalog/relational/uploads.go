package relational

import (
	"context"
	"fmt"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

func appendIntents(into *[]catalog.Intent) func(Row) error {
	*into = nil
	return func(r Row) error {
		var in catalog.Intent
		var topic string
		var epoch, created int64
		err := r.Scan(&in.Attempt, &topic, &in.Partition.Partition, (*int64)(&in.Base), (*int64)(&in.Next), &in.Key,
			(*int32)(&in.Guard.Broker), (*int64)(&in.Guard.Incarnation), &epoch, &in.UploadID, &in.Job, &created)
		if err != nil {
			return err
		}
		in.Guard.Epoch, in.Created = record.Epoch(epoch), time.UnixMilli(created)
		in.Partition.Topic, err = topicID(topic)
		*into = append(*into, in)
		return err
	}
}

// lockIntent reads an attempt's intent under a lock; into stays empty if it is not there.
func (s *Store) lockIntent(attempt string, into *[]catalog.Intent) Stmt {
	return Stmt{SQL: s.sql.intents + `WHERE attempt = $1`, Args: []any{attempt}, Lock: "FOR UPDATE", Row: appendIntents(into)}
}

// known is what the tables say of an attempt.
type known struct {
	intents       []catalog.Intent
	live, garbage bool
}

func (s *Store) readAttempt(in catalog.Intent, into *known) []Stmt {
	into.live, into.garbage = false, false
	return []Stmt{
		s.lockIntent(in.Attempt, &into.intents),
		{SQL: `SELECT id FROM segments WHERE attempt = $1`, Args: []any{in.Attempt}, Row: one(&into.live)},
		{SQL: `SELECT deletes FROM garbage WHERE key = $1 OR attempt = $2`, Args: []any{in.Key, in.Attempt}, Row: one(&into.garbage)},
	}
}

// admit judges whether an intent may be written (R1): false, nil if it stands already or is published.
func (k known) admit(in catalog.Intent) (bool, error) {
	switch {
	case in.Attempt == "" || in.Key == "" || in.Next <= in.Base:
		return false, fmt.Errorf("%w: an intent of attempt %q, key %q, [%d, %d)", catalog.ErrInvalid, in.Attempt, in.Key, in.Base, in.Next)
	case k.garbage:
		return false, fmt.Errorf("%w: %s", catalog.ErrGarbage, in.Key)
	case k.live:
		return false, nil
	case len(k.intents) > 0:
		if old := k.intents[0]; old.Key != in.Key || old.Partition != in.Partition || old.Base != in.Base || old.Next != in.Next {
			return false, fmt.Errorf("%w: attempt %s is %s of [%d, %d)", catalog.ErrInvalid, in.Attempt, old.Key, old.Base, old.Next)
		}
		return false, nil
	}
	return true, nil
}

func (s *Store) insertIntent(in catalog.Intent, epoch int64) Stmt {
	return Stmt{SQL: s.sql.putIntent, Args: []any{in.Attempt, in.Partition.Topic.Hex(), in.Partition.Partition, int64(in.Base),
		int64(in.Next), in.Key, int32(in.Guard.Broker), int64(in.Guard.Incarnation), epoch, in.UploadID, in.Job}}
}

// PutIntent writes an intent under the leader's guard.
func (s *Store) PutIntent(ctx context.Context, in catalog.Intent) error {
	in.Job = 0
	return s.write(ctx, func(tx Tx) error {
		var live bool
		var row locked
		var k known
		stmts := []Stmt{lockTopic(in.Partition.Topic, &live), lockPartition(in.Partition, "FOR SHARE", &row)}
		if err := tx.Read(append(stmts, s.readAttempt(in, &k)...)...); err != nil {
			return err
		}
		if err := row.holds(in.Partition, in.Guard, live); err != nil {
			return err
		}
		add, err := k.admit(in)
		if err != nil {
			return err
		}
		if !add {
			return ErrDone
		}
		tx.Queue(s.insertIntent(in, int64(in.Guard.Epoch)))
		return nil
	})
}

// attempt is an intent with the rows that fence it.
type attempt struct {
	intents []catalog.Intent
	row     locked
	jobs    []catalog.Job
	garbage bool
}

// lockAttempt locks what the fate of an attempt hangs on. The partition is found through the intent
// but locked before it.
func (s *Store) lockAttempt(id string, into *attempt) []Stmt {
	part := lockPartition(catalog.PartitionID{}, "FOR SHARE", &into.row)
	part.SQL = `SELECT leader, leader_incarnation, leader_epoch, start, tiered, tier_bytes, upto_from, upto_firm FROM partitions
		WHERE (topic, partition) IN (SELECT topic, partition FROM upload_intents WHERE attempt = $1)`
	part.Args = []any{id}
	into.garbage = false
	return []Stmt{
		part,
		{SQL: jobColumns + ` WHERE id IN (SELECT job FROM upload_intents WHERE attempt = $1)`, Args: []any{id}, Lock: "FOR SHARE", Row: appendJobs(&into.jobs)},
		s.lockIntent(id, &into.intents),
		{SQL: `SELECT deletes FROM garbage WHERE attempt = $1`, Args: []any{id}, Row: one(&into.garbage)},
	}
}

// holds judges a guard by the leader's row or, for a job's intent, by the job's.
func (a *attempt) holds(g catalog.Guard) error {
	for _, j := range a.jobs {
		if g == (catalog.Guard{Broker: j.Broker, Incarnation: j.Incarnation, Epoch: record.Epoch(j.Epoch)}) {
			return nil
		}
	}
	return a.row.holds(a.intents[0].Partition, g, true)
}

// SetUploadID notes a multipart upload.
func (s *Store) SetUploadID(ctx context.Context, id string, g catalog.Guard, uploadID string) error {
	return s.write(ctx, func(tx Tx) error {
		var a attempt
		if err := tx.Read(s.lockAttempt(id, &a)...); err != nil {
			return err
		}
		if len(a.intents) == 0 {
			return fmt.Errorf("%w: attempt %s", catalog.ErrIntentGone, id)
		}
		if err := a.holds(g); err != nil {
			return err
		}
		tx.Queue(Stmt{SQL: `UPDATE upload_intents SET upload_id = $2 WHERE attempt = $1`, Args: []any{id, uploadID}})
		return nil
	})
}

// Publish makes a segment live.
func (s *Store) Publish(ctx context.Context, g catalog.Guard, seg catalog.Segment) (catalog.Bounds, error) {
	var out catalog.Bounds
	p := seg.Partition
	err := s.write(ctx, func(tx Tx) error {
		var live, done bool
		var row locked
		var intents []catalog.Intent
		var upto int64
		err := tx.Read(lockTopic(p.Topic, &live), lockPartition(p, "FOR UPDATE", &row), s.lockIntent(seg.Attempt, &intents),
			Stmt{SQL: `SELECT id FROM segments WHERE attempt = $1`, Args: []any{seg.Attempt}, Row: one(&done)},
			lastUpto(p, seg.Base, &upto))
		if err != nil {
			return err
		}
		out = row.bounds
		if done {
			return ErrDone
		}
		if err := row.holds(p, g, live); err != nil {
			return err
		}
		if err := matches(intents, seg, 0); err != nil {
			return err
		}
		if out, err = catalog.CheckPublish(row.bounds, seg); err != nil {
			return fmt.Errorf("partition %s: %w", p, err)
		}
		seg.MaxTimestampUpto = max(upto, seg.MaxTimestamp)
		tx.Queue(Stmt{SQL: `DELETE FROM upload_intents WHERE attempt = $1`, Args: []any{seg.Attempt}}, insertSegment(seg), setBounds(p, out))
		return nil
	})
	if err != nil {
		return catalog.Bounds{}, err
	}
	return out, nil
}

// matches makes sure that a segment is what its intent, still there, announced.
func matches(intents []catalog.Intent, seg catalog.Segment, job int64) error {
	for _, in := range intents {
		if in.Attempt != seg.Attempt {
			continue
		}
		if in.Key != seg.Key || in.Partition != seg.Partition || in.Base != seg.Base || in.Next != seg.Next || in.Job != job {
			return fmt.Errorf("%w: attempt %s was to be %s of %s [%d, %d) for job %d, not %s of %s [%d, %d) for job %d", catalog.ErrInvalid,
				in.Attempt, in.Key, in.Partition, in.Base, in.Next, in.Job, seg.Key, seg.Partition, seg.Base, seg.Next, job)
		}
		return nil
	}
	return fmt.Errorf("%w: attempt %s", catalog.ErrIntentGone, seg.Attempt)
}

// garbage is an object as an element of a table parameter.
type garbage struct {
	Key      string `json:"key"`
	Attempt  string `json:"attempt"`
	UploadID string `json:"upload_id"`
}

func (s *Store) queueGarbage(tx Tx, rows []garbage) {
	if len(rows) > 0 {
		tx.Queue(Stmt{SQL: s.sql.addGarbage, Args: []any{encode(rows)}})
	}
}

func intentGarbage(ins []catalog.Intent) (rows []garbage, attempts []string) {
	for _, in := range ins {
		rows = append(rows, garbage{in.Key, in.Attempt, in.UploadID})
		attempts = append(attempts, in.Attempt)
	}
	return rows, attempts
}

// GiveUp turns an intent into garbage (R9).
func (s *Store) GiveUp(ctx context.Context, g catalog.Guard, id string) error {
	return s.write(ctx, func(tx Tx) error {
		var a attempt
		if err := tx.Read(s.lockAttempt(id, &a)...); err != nil {
			return err
		}
		if len(a.intents) == 0 {
			if a.garbage {
				return ErrDone
			}
			return fmt.Errorf("%w: attempt %s", catalog.ErrIntentGone, id)
		}
		if err := a.holds(g); err != nil {
			return err
		}
		rows, attempts := intentGarbage(a.intents)
		tx.Queue(Stmt{SQL: s.sql.dropTaken, Args: []any{encode(attempts)}})
		s.queueGarbage(tx, rows)
		return nil
	})
}

// Intents lists the intents of a partition, oldest first.
func (s *Store) Intents(ctx context.Context, p catalog.PartitionID) ([]catalog.Intent, error) {
	var out []catalog.Intent
	err := s.db.Read(ctx, Stmt{
		SQL:  s.sql.intents + `WHERE topic = $1::uuid AND partition = $2 ORDER BY created, attempt`,
		Args: []any{p.Topic.Hex(), p.Partition},
		Row:  appendIntents(&out),
	})
	return out, err
}
