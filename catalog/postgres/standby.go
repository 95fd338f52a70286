package postgres

import (
	"context"

	"tidemark/catalog/relational"
)

// SynchronousStandby reports whether a commit waits for a second server, so that a failover to it loses none (R17). It
// goes by synchronous_standby_names: with a name there no commit is answered before that standby has it.
func (s *Store) SynchronousStandby(ctx context.Context) (bool, error) {
	var names string
	err := s.db.Read(ctx, relational.Stmt{
		SQL: `SELECT current_setting('synchronous_standby_names')`,
		Row: func(r relational.Row) error { return r.Scan(&names) },
	})
	return names != "", err
}
