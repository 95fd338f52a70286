package relational

import (
	"context"
	"fmt"
	"time"

	"tidemark/catalog"
)

// Cluster reads the cluster's row.
func (s *Store) Cluster(ctx context.Context) (catalog.ClusterRow, error) {
	var row catalog.ClusterRow
	var id string
	err := s.db.Read(ctx, Stmt{SQL: `SELECT id::text, generation, level FROM cluster`, Row: func(r Row) error {
		return r.Scan(&id, &row.Generation, &row.Level)
	}})
	if err != nil {
		return row, err
	}
	row.ID, err = topicID(id)
	return row, err
}

// Time reads the database's wall clock.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	var ms int64
	err := s.db.Read(ctx, Stmt{SQL: `SELECT ` + s.sql.d.Millis(s.sql.d.Now), Row: func(r Row) error { return r.Scan(&ms) }})
	return time.UnixMilli(ms), err
}

// blockBits is how many ids a random prefix begins: 47 + 16 bits are the non-negative int64s (H14).
const blockBits = 16

// ProducerIDs takes a random prefix that nobody has and gives its first n ids.
func (s *Store) ProducerIDs(ctx context.Context, b catalog.BrokerID, n int) (int64, error) {
	if n < 1 || n > 1<<blockBits {
		return 0, fmt.Errorf("%w: a block of %d producer ids, 1 to %d are possible", catalog.ErrInvalid, n, 1<<blockBits)
	}
	for {
		prefix, taken := random()>>blockBits, false
		err := s.write(ctx, func(tx Tx) error {
			tx.Queue(Stmt{
				SQL:     `INSERT INTO producer_ids (prefix, broker, at) VALUES ($1, $2, ` + s.sql.d.Now + `) ON CONFLICT (prefix) DO NOTHING`,
				Args:    []any{prefix, int32(b)},
				Changed: func(n int64) { taken = n == 0 },
			})
			return nil
		})
		if err != nil || !taken {
			return prefix << blockBits, err
		}
	}
}
