package relational

import (
	"context"
	"fmt"

	"tidemark/catalog"
)

// place is where the counter stands, and whether the caller's position is one of its own.
type place struct {
	now          catalog.Position
	completeFrom catalog.Version // tombstones at or below it are gone
	holds        bool            // the ledger has the caller's pair
	oldest       catalog.Version // of the ledger
}

func (s *Store) readPlace(since catalog.Position, into *place) Stmt {
	return Stmt{SQL: s.sql.pulled, Args: []any{int64(since.Version), since.Nonce}, Row: func(r Row) error {
		var held int64
		err := r.Scan((*int64)(&into.now.Version), &into.now.Nonce, (*int64)(&into.completeFrom), &held, (*int64)(&into.oldest))
		into.holds = held > 0
		return err
	}}
}

// full says whether a caller at since must be told everything; ErrRewound if its pair was never here,
// which for a version older than the ledger cannot be known (H2).
func (pl place) full(since catalog.Position) (bool, error) {
	switch {
	case since == (catalog.Position{}):
		return true, nil
	case pl.holds:
		return since.Version < pl.completeFrom, nil
	case since.Version > 0 && since.Version < pl.oldest:
		return true, nil
	}
	return false, fmt.Errorf("%w: it stands at version %d and does not hold version %d with nonce %d",
		catalog.ErrRewound, pl.now.Version, since.Version, since.Nonce)
}

// Pull reads what changed since a position: one row if nothing did, else all of it on one snapshot. A
// snapshot that shows version n shows every change up to n, because the counter's row is locked from
// the change of its value to the COMMIT.
func (s *Store) Pull(ctx context.Context, since catalog.Position) (catalog.Changes, error) {
	var pl place
	if err := s.db.Read(ctx, s.readPlace(since, &pl)); err != nil {
		return catalog.Changes{}, err
	}
	full, err := pl.full(since)
	if err != nil || (!full && pl.now == since) {
		return catalog.Changes{Position: pl.now}, err
	}
	for {
		ch, pl, err := s.pull(ctx, since, full)
		if err != nil {
			return catalog.Changes{}, err
		}
		// What was enough a moment ago may have been pruned before this snapshot.
		again, err := pl.full(since)
		if err != nil || again == full {
			ch.Position, ch.Full = pl.now, full
			return ch, err
		}
		full = again
	}
}

func (s *Store) pull(ctx context.Context, since catalog.Position, full bool) (ch catalog.Changes, pl place, err error) {
	from := int64(since.Version)
	if full {
		from = -1
	}
	after := []any{from}
	byID := map[catalog.TopicID]int{}
	stmts := []Stmt{
		s.readPlace(since, &pl),
		readBrokers(` WHERE version > $1 ORDER BY id`, after, "", &ch.Brokers),
		{SQL: `SELECT id::text, name, version FROM topics WHERE NOT deleted AND version > $1 ORDER BY name`, Args: after, Row: appendTopic(&ch, byID)},
		{SQL: `SELECT c.topic::text, c.name, c.value FROM topic_configs c JOIN topics t ON t.id = c.topic
			WHERE NOT t.deleted AND t.version > $1`, Args: after, Row: appendConfig(&ch, byID)},
		{SQL: `SELECT ` + partitionColumns + ` FROM partitions p JOIN topics t ON t.id = p.topic
			WHERE NOT t.deleted AND p.version > $1 ORDER BY p.topic, p.partition`, Args: after, Row: func(r Row) error {
			var p catalog.Partition
			err := scanPartition(r, &p)
			ch.Partitions = append(ch.Partitions, p)
			return err
		}},
		{SQL: slotColumns + ` WHERE version > $1 ORDER BY slot`, Args: after, Row: appendSlot(&ch.Slots)},
	}
	if !full {
		stmts = append(stmts, Stmt{SQL: `SELECT topic::text FROM tombstones WHERE version > $1 ORDER BY version`, Args: after, Row: func(r Row) error {
			var hex string
			if err := r.Scan(&hex); err != nil {
				return err
			}
			id, err := topicID(hex)
			ch.Deleted = append(ch.Deleted, id)
			return err
		}})
	}
	err = s.db.Read(ctx, stmts...)
	return ch, pl, err
}

func appendTopic(ch *catalog.Changes, byID map[catalog.TopicID]int) func(Row) error {
	return func(r Row) error {
		var hex string
		t := catalog.Topic{Configs: map[string]string{}}
		err := r.Scan(&hex, &t.Name, (*int64)(&t.Version))
		if err != nil {
			return err
		}
		if t.ID, err = topicID(hex); err != nil {
			return err
		}
		byID[t.ID] = len(ch.Topics)
		ch.Topics = append(ch.Topics, t)
		return nil
	}
}

func appendConfig(ch *catalog.Changes, byID map[catalog.TopicID]int) func(Row) error {
	return func(r Row) error {
		var hex, name, value string
		if err := r.Scan(&hex, &name, &value); err != nil {
			return err
		}
		id, err := topicID(hex)
		if err != nil {
			return err
		}
		ch.Topics[byID[id]].Configs[name] = value
		return nil
	}
}
