package relational

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// lostAge is how long a lost row of a topic that never comes back is kept.
const lostAge = 7 * 24 * time.Hour

// storedLost is a lost row as a list parameter.
type storedLost struct {
	Attempt   string `json:"attempt"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Segment   string `json:"segment"`
}

// reported is what the tables say about rows that a broker has published.
type reported struct {
	named map[string]catalog.Naming // by key
	jobs  map[string]bool           // by key: named by a job's intent
	kept  map[string]bool           // by attempt
	gone  map[catalog.TopicID]bool
	start map[catalog.PartitionID]record.Offset
}

// lost says whether a row is to be kept. One that only a job's intent names is, and does not count as lost.
func (r *reported) lost(s catalog.Publication) (keep, counts bool) {
	unnamed := r.named[s.Key] == catalog.NotNamed
	intended := r.named[s.Key] == catalog.NamedByIntent && r.jobs[s.Key]
	keep = (unnamed || intended) && !r.gone[s.Partition.Topic] && s.Next > r.start[s.Partition]
	return keep, keep && unnamed
}

// readReported reads what names the rows. Whoever names an object passes it on from intent to row to garbage, so it is
// looked for in that order.
func (s *Store) readReported(rows []catalog.Publication, into *reported) []Stmt {
	*into = reported{
		named: map[string]catalog.Naming{}, jobs: map[string]bool{}, kept: map[string]bool{},
		gone: map[catalog.TopicID]bool{}, start: map[catalog.PartitionID]record.Offset{},
	}
	objects := make([]catalog.ObjectName, len(rows))
	attempts := make([]string, len(rows))
	var topics []string
	var parts []catalog.PartitionID
	for i, x := range rows {
		objects[i], attempts[i] = catalog.ObjectName{Key: x.Key, Attempt: x.Attempt}, x.Attempt
		topics = append(topics, x.Partition.Topic.Hex())
		parts = append(parts, x.Partition)
	}
	slices.Sort(topics)
	topics = slices.Compact(topics)
	slices.SortFunc(parts, comparePartitions)
	parts = slices.Compact(parts)
	gone := func(r Row) error {
		var hex string
		if err := r.Scan(&hex); err != nil {
			return err
		}
		id, err := topicID(hex)
		into.gone[id] = true
		return err
	}
	in := s.sql.d.List("$1", "uuid")
	named := s.naming(objects, into.named)
	return []Stmt{
		{SQL: `SELECT topic::text FROM tombstones WHERE topic IN ` + in, Args: []any{encode(topics)}, Row: gone},
		{SQL: `SELECT id::text FROM topics WHERE deleted AND id IN ` + in, Args: []any{encode(topics)}, Row: gone},
		{SQL: s.sql.bounds, Args: []any{namePartitions(parts)}, Row: func(r Row) error {
			var hex string
			var p catalog.PartitionID
			var start, tiered, bytes int64
			err := r.Scan(&hex, &p.Partition, &start, &tiered, &bytes)
			if err == nil {
				p.Topic, err = topicID(hex)
			}
			into.start[p] = record.Offset(start)
			return err
		}},
		{SQL: `SELECT attempt FROM lost_segments WHERE attempt IN ` + s.sql.d.List("$1", "text"), Args: []any{encode(attempts)}, Row: func(r Row) error {
			var id string
			err := r.Scan(&id)
			into.kept[id] = true
			return err
		}},
		{SQL: `SELECT key FROM upload_intents WHERE job <> 0 AND attempt IN ` + s.sql.d.List("$1", "text"), Args: []any{encode(attempts)}, Row: func(r Row) error {
			var key string
			err := r.Scan(&key)
			into.jobs[key] = true
			return err
		}},
		named[1], named[2], named[0], // intents, rows, garbage
	}
}

func comparePartitions(a, b catalog.PartitionID) int {
	return cmp.Or(slices.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Partition, b.Partition))
}

// ReportLost keeps the rows that nothing names.
func (s *Store) ReportLost(ctx context.Context, rows []catalog.Publication) (int, error) {
	lost := 0
	if len(rows) == 0 {
		return 0, nil
	}
	err := s.write(ctx, func(tx Tx) error {
		var r reported
		if err := tx.Read(s.readReported(rows, &r)...); err != nil {
			return err
		}
		lost = 0
		var add []storedLost
		for _, x := range rows {
			keep, counts := r.lost(x)
			if !keep {
				continue
			}
			if counts {
				lost++
			}
			if !r.kept[x.Attempt] {
				add = append(add, storedLost{x.Attempt, x.Partition.Topic.Hex(), x.Partition.Partition, encode(x)})
			}
		}
		if len(add) == 0 {
			return ErrDone
		}
		tx.Queue(Stmt{SQL: s.sql.dropLostBefore, Args: []any{lostAge.Milliseconds()}}, Stmt{SQL: s.sql.addLost, Args: []any{encode(add)}})
		return nil
	})
	return lost, err
}

// LostPartitions lists the partitions that lost rows are kept of.
func (s *Store) LostPartitions(ctx context.Context) ([]catalog.PartitionID, error) {
	var out []catalog.PartitionID
	err := s.db.Read(ctx, Stmt{
		SQL: `SELECT DISTINCT l.topic::text, l.partition FROM lost_segments l JOIN topics t ON t.id = l.topic WHERE NOT t.deleted ORDER BY 1, 2`,
		Row: func(r Row) error {
			var hex string
			var p catalog.PartitionID
			err := r.Scan(&hex, &p.Partition)
			if err == nil {
				p.Topic, err = topicID(hex)
			}
			out = append(out, p)
			return err
		},
	})
	return out, err
}

// LostSegments lists the lost rows of a partition.
func (s *Store) LostSegments(ctx context.Context, p catalog.PartitionID) ([]catalog.Publication, error) {
	var out []catalog.Publication
	err := s.db.Read(ctx, Stmt{
		SQL: `SELECT segment FROM lost_segments WHERE topic = $1::uuid AND partition = $2`, Args: []any{p.Topic.Hex(), p.Partition},
		Row: func(r Row) error {
			var text string
			if err := r.Scan(&text); err != nil {
				return err
			}
			var seg catalog.Publication
			if err := json.Unmarshal([]byte(text), &seg); err != nil {
				return fmt.Errorf("a lost row: %w", err)
			}
			out = append(out, seg)
			return nil
		},
	})
	slices.SortFunc(out, func(a, b catalog.Publication) int {
		return cmp.Or(cmp.Compare(b.Next, a.Next), cmp.Compare(a.Base, b.Base))
	})
	return out, err
}

// SettleLost forgets lost rows.
func (s *Store) SettleLost(ctx context.Context, attempts []string) error {
	if len(attempts) == 0 {
		return nil
	}
	return s.write(ctx, func(tx Tx) error {
		tx.Queue(Stmt{SQL: `DELETE FROM lost_segments WHERE attempt IN ` + s.sql.d.List("$1", "text"), Args: []any{encode(attempts)}})
		return nil
	})
}

// SwapLost publishes a lost row in the place of live ones.
func (s *Store) SwapLost(ctx context.Context, g catalog.Guard, old []catalog.SegmentID, seg catalog.Segment) (catalog.Bounds, error) {
	p := seg.Partition
	var out catalog.Bounds
	removed := false
	err := s.write(ctx, func(tx Tx) error {
		var w swap
		err := tx.Read(lockTopic(p.Topic, &w.live), lockPartition(p, "FOR UPDATE", &w.row), s.lockIntent(seg.Attempt, &w.intents),
			Stmt{SQL: s.sql.byIDs, Args: []any{encode(old)}, Row: appendSegments(&w.old)},
			Stmt{SQL: s.sql.byAttempts, Args: []any{encode([]string{seg.Attempt})}, Row: appendSegments(&w.done)},
			lastUpto(p, seg.Base, &w.upto))
		if err != nil {
			return err
		}
		out, removed = w.row.bounds, false
		if len(w.done) > 0 {
			return ErrDone
		}
		if out, err = w.judgeLost(g, old, seg); err != nil {
			return fmt.Errorf("partition %s: %w", p, err)
		}
		removed = true
		s.queueSwap(tx, &w, []catalog.Segment{seg})
		tx.Queue(setBounds(p, out), breakChain(p, seg.Base, seg.Next))
		return nil
	})
	if err != nil {
		return catalog.Bounds{}, err
	}
	if removed {
		// The swap is committed whatever becomes of the step; its mark stays for the next one.
		_, _ = s.chainStep(ctx, p)
	}
	return out, nil
}

// judgeLost is the bounds after a lost row has come back, or why it cannot. Its intent may be that of the job that made
// it, or the leader's own.
func (w *swap) judgeLost(g catalog.Guard, old []catalog.SegmentID, seg catalog.Segment) (catalog.Bounds, error) {
	if err := w.row.holds(seg.Partition, g, w.live); err != nil {
		return w.row.bounds, err
	}
	var job int64
	for _, in := range w.intents {
		job = in.Job
	}
	if err := matches(w.intents, seg, job); err != nil {
		return w.row.bounds, err
	}
	if err := w.inputs(seg.Partition, old); err != nil {
		return w.row.bounds, err
	}
	return catalog.CheckSwapLost(w.row.bounds, w.old, seg)
}
