package relational

import (
	"context"
	"encoding/json"
	"fmt"

	"tidemark/catalog"
)

// unlessRewound reads the mark so that it cannot be set before COMMIT.
func unlessRewound(into *bool) Stmt {
	return Stmt{SQL: `SELECT rewound FROM controller`, Lock: "FOR KEY SHARE", Row: func(r Row) error { return r.Scan(into) }}
}

func refuseRewound(rewound bool) error {
	if rewound {
		return fmt.Errorf("%w: what the brokers know is being taken in", catalog.ErrRewound)
	}
	return nil
}

// mark is the state of a repair under the lock of the controller's row.
type mark struct {
	controller catalog.Controller
	rewound    bool
	repaired   catalog.Version
}

func lockMark(into *mark) Stmt {
	return Stmt{SQL: `SELECT broker, incarnation, epoch, lease, rewound, repaired FROM controller`, Lock: "FOR UPDATE", Row: func(r Row) error {
		c := &into.controller
		return r.Scan((*int32)(&c.Broker), (*int64)(&c.Incarnation), &c.Epoch, &c.Lease, &into.rewound, (*int64)(&into.repaired))
	}}
}

// ReportRewound looks for the position of a copy once more, under the lock, and keeps the copy.
func (s *Store) ReportRewound(ctx context.Context, b catalog.BrokerID, c catalog.Copy) (catalog.Rewound, error) {
	var stands catalog.Rewound
	err := s.write(ctx, func(tx Tx) error {
		var m mark
		var pl place
		if err := tx.Read(lockMark(&m), s.readPlace(c.Position, &pl)); err != nil {
			return err
		}
		switch {
		case pl.holds:
			stands = catalog.Fits
			return ErrDone
		case !m.rewound && c.Position.Version < m.repaired:
			stands = catalog.Repaired
			return ErrDone
		}
		stands = catalog.Waits
		tx.Queue(
			Stmt{SQL: `UPDATE controller SET rewound = TRUE`},
			Stmt{SQL: `INSERT INTO copies (broker, version, copy) VALUES ($1, $2, $3)
				ON CONFLICT (broker) DO UPDATE SET version = excluded.version, copy = excluded.copy WHERE copies.version <= excluded.version`,
				Args: []any{int32(b), int64(c.Position.Version), encode(c)}})
		return nil
	})
	return stands, err
}

// Repair takes the copies in.
func (s *Store) Repair(ctx context.Context, c catalog.Controller) ([]catalog.Topic, error) {
	var unknown []catalog.Topic
	err := s.write(ctx, func(tx Tx) error {
		unknown = nil
		var m mark
		var copies []catalog.Copy
		have := catalog.Copy{}
		byID := map[catalog.TopicID]int{}
		ch := catalog.Changes{}
		var rows []partitionRow
		err := tx.Read(lockMark(&m),
			Stmt{SQL: `SELECT copy FROM copies ORDER BY broker`, Row: appendCopy(&copies)},
			Stmt{SQL: `SELECT id::text, name, version FROM topics WHERE NOT deleted ORDER BY name`, Row: appendTopic(&ch, byID)},
			Stmt{SQL: `SELECT ` + partitionColumns + `, p.leader_incarnation FROM partitions p ORDER BY p.topic, p.partition`,
				Lock: "FOR UPDATE OF p", Row: appendPartition(&rows)},
			lockAllSlots(&have.Slots),
			Stmt{SQL: `SELECT version FROM counter`, Row: func(r Row) error { return r.Scan((*int64)(&have.Position.Version)) }})
		if err != nil {
			return err
		}
		if err := holdsController(c, m.controller); err != nil {
			return err
		}
		if !m.rewound {
			return ErrDone
		}
		have.Topics = ch.Topics
		for _, p := range rows {
			have.Partitions = append(have.Partitions, p.Partition)
		}
		r := catalog.Repair(have, copies)
		s.queueRepairs(tx, have, r)
		unknown = r.Unknown
		return nil
	})
	return unknown, err
}

func appendCopy(into *[]catalog.Copy) func(Row) error {
	*into = nil
	return func(r Row) error {
		var text string
		if err := r.Scan(&text); err != nil {
			return err
		}
		var c catalog.Copy
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			return fmt.Errorf("a broker's copy: %w", err)
		}
		*into = append(*into, c)
		return nil
	}
}

// queueRepairs writes a repair: everything gets the new version, and everybody reads everything.
func (s *Store) queueRepairs(tx Tx, have catalog.Copy, r catalog.Repairs) {
	tx.Queue(Stmt{SQL: `UPDATE counter SET version = CASE WHEN version < $1 THEN $1 ELSE version END`, Args: []any{int64(r.Above)}})
	s.bump(tx)
	there := map[catalog.PartitionID]bool{}
	for _, p := range have.Partitions {
		there[p.ID] = true
	}
	var update, add []partitionRow
	for _, p := range r.Partitions {
		if row := (partitionRow{Partition: p}); there[p.ID] {
			update = append(update, row)
		} else {
			add = append(add, row)
		}
	}
	counts := map[catalog.TopicID]int{}
	for _, p := range r.Partitions {
		counts[p.ID.Topic]++
	}
	for _, t := range r.Topics {
		tx.Queue(Stmt{
			SQL:  `INSERT INTO topics (id, name, deleted, partitions, version) VALUES ($1::uuid, $2, FALSE, $3, ` + currentVersion + `) ON CONFLICT DO NOTHING`,
			Args: []any{t.ID.Hex(), t.Name, counts[t.ID]},
		})
		s.queueConfigs(tx, t.ID, t.Configs)
	}
	s.queuePartitions(tx, update)
	if len(add) > 0 {
		tx.Queue(Stmt{SQL: s.sql.addPartitions, Args: []any{storePartitions(add)}})
		for _, p := range add {
			if p.Start > 0 {
				tx.Queue(setBounds(p.ID, catalog.Bounds{Start: p.Start, Tiered: p.Start}))
			}
		}
	}
	for _, t := range have.Topics {
		tx.Queue(Stmt{SQL: `UPDATE topics SET partitions = CASE WHEN partitions < $2 THEN $2 ELSE partitions END WHERE id = $1::uuid`,
			Args: []any{t.ID.Hex(), counts[t.ID]}})
	}
	for _, g := range r.Slots {
		tx.Queue(Stmt{SQL: `UPDATE slots SET broker = -1, incarnation = 0, epoch = $2, version = ` + currentVersion + ` WHERE slot = $1`,
			Args: []any{g.Slot, g.Epoch}})
	}
	tx.Queue(
		Stmt{SQL: `UPDATE counter SET complete_from = version`},
		Stmt{SQL: `DELETE FROM copies`},
		Stmt{SQL: `UPDATE controller SET rewound = FALSE, repaired = ` + currentVersion})
}
