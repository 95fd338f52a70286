package relational

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
)

// Store implements catalog.Store on a driver. Its methods may be called at once from any number of
// goroutines.
type Store struct {
	db  DB
	sql text
}

var _ catalog.Store = (*Store)(nil)

// New is a store on db, whose schema is in place.
func New(db DB, d Dialect) *Store { return &Store{db: db, sql: write(d)} }

// Close ends all connections; calls in flight fail.
func (s *Store) Close() error { return s.db.Close() }

func (s *Store) write(ctx context.Context, decide func(Tx) error) error {
	return s.db.Write(ctx, Work, decide)
}

// random is a random number above 0: incarnations, nonces, prefixes.
func random() int64 {
	for {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			panic(fmt.Sprintf("catalog: the system's random source failed: %v", err))
		}
		if n := int64(binary.BigEndian.Uint64(b[:]) >> 1); n > 0 {
			return n
		}
	}
}

// encode makes a list or table parameter.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("catalog: %T does not encode: %v", v, err))
	}
	if string(b) == "null" {
		return "[]"
	}
	return string(b)
}

// bump moves the counter and writes its ledger row; it is queued before the rows that carry the
// version and after everything that could still refuse.
func (s *Store) bump(tx Tx) {
	tx.Queue(
		Stmt{SQL: `UPDATE counter SET version = version + 1, nonce = $1`, Args: []any{random()}},
		Stmt{SQL: s.sql.ledger},
	)
}

// versionInto reads the version that bump gave.
func versionInto(v *catalog.Version) Stmt {
	return Stmt{SQL: `SELECT version FROM counter`, Row: func(r Row) error { return r.Scan((*int64)(v)) }}
}

// one is the Row of a probe: it notes that there is a row.
func one(found *bool) func(Row) error {
	return func(r Row) error {
		var n int64
		*found = true
		return r.Scan(&n)
	}
}

func topicID(hex string) (catalog.TopicID, error) {
	var plain [32]byte
	n := 0
	for i := 0; i < len(hex) && n < len(plain); i++ {
		if hex[i] != '-' {
			plain[n] = hex[i]
			n++
		}
	}
	return catalog.ParseUUID(string(plain[:n]))
}

// locked is a partition's row under its lock.
type locked struct {
	found    bool
	fence    catalog.Guard
	bounds   catalog.Bounds
	uptoFrom int64 // where max_ts_upto may be too large from, -1: nowhere
	uptoFirm int64 // the last break of its chain
}

// lockPartition reads the row of p with the lock.
func lockPartition(p catalog.PartitionID, lock string, into *locked) Stmt {
	*into = locked{}
	return Stmt{
		SQL: `SELECT leader, leader_incarnation, leader_epoch, start, tiered, tier_bytes, upto_from, upto_firm
			FROM partitions WHERE topic = $1::uuid AND partition = $2`,
		Args: []any{p.Topic.Hex(), p.Partition},
		Lock: lock,
		Row: func(r Row) error {
			into.found = true
			return r.Scan((*int32)(&into.fence.Broker), (*int64)(&into.fence.Incarnation), (*int32)(&into.fence.Epoch),
				(*int64)(&into.bounds.Start), (*int64)(&into.bounds.Tiered), &into.bounds.TierBytes, &into.uptoFrom, &into.uptoFirm)
		},
	}
}

// lockTopic makes sure that a topic cannot be deleted before COMMIT; live stays false if it is not there.
func lockTopic(id catalog.TopicID, live *bool) Stmt {
	*live = false
	return Stmt{
		SQL:  `SELECT partitions FROM topics WHERE id = $1::uuid AND NOT deleted`,
		Args: []any{id.Hex()},
		Lock: "FOR KEY SHARE",
		Row:  one(live),
	}
}

// holds judges a partition's row and guard as read under their locks.
func (l *locked) holds(p catalog.PartitionID, g catalog.Guard, live bool) error {
	if !live || !l.found {
		return fmt.Errorf("%w: %s", catalog.ErrUnknownTopic, p)
	}
	if err := catalog.CheckGuard(g, l.fence); err != nil {
		return fmt.Errorf("partition %s: %w", p, err)
	}
	return nil
}

// setBounds writes what CheckPublish and its kin decided.
func setBounds(p catalog.PartitionID, b catalog.Bounds) Stmt {
	return Stmt{
		SQL:  `UPDATE partitions SET start = $3, tiered = $4, tier_bytes = $5 WHERE topic = $1::uuid AND partition = $2`,
		Args: []any{p.Topic.Hex(), p.Partition, int64(b.Start), int64(b.Tiered), b.TierBytes},
	}
}

// breakChain notes that max_ts_upto may be too large from base on, and that base is a break.
func breakChain(p catalog.PartitionID, from, firm record.Offset) Stmt {
	return Stmt{
		SQL: `UPDATE partitions SET
				upto_from = CASE WHEN upto_from < 0 OR upto_from > $3 THEN $3 ELSE upto_from END,
				upto_firm = CASE WHEN upto_firm < $4 THEN $4 ELSE upto_firm END
			WHERE topic = $1::uuid AND partition = $2`,
		Args: []any{p.Topic.Hex(), p.Partition, int64(from), int64(firm)},
	}
}
