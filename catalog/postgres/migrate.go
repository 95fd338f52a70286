package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"tidemark/catalog"
	"tidemark/catalog/relational"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrationLock is the advisory lock, scoped to the transaction, under which the schema changes.
const migrationLock = 0x746964656d61726b // "tidemark"

// migrateTimeout bounds the wait for other brokers that migrate at the same time.
const migrateTimeout = time.Minute

// migrateAttempts is how often a migration begins anew whose connection broke: it is one transaction, so nothing was done.
const migrateAttempts = 3

// migrate runs the migrations that the database has not seen, in one transaction. Any number of
// brokers may do so at once.
func (d *db) migrate(ctx context.Context) error {
	ctx, cancel := d.deadline(ctx, migrateTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		err := d.migrateOnce(ctx)
		if err == nil {
			return nil
		}
		judged := d.judge(relational.Work, err)
		var unreachable *pgconn.ConnectError
		if attempt == migrateAttempts || !catalog.Unavailable(judged) || errors.As(err, &unreachable) {
			return fmt.Errorf("catalog schema: %w", judged)
		}
	}
}

func (d *db) migrateOnce(ctx context.Context) error {
	return pgx.BeginFunc(ctx, d.pools[relational.Work], func(tx pgx.Tx) error {
		_, err := tx.Conn().PgConn().Exec(ctx, fmt.Sprintf(`
			SET LOCAL statement_timeout = '60s'; SET LOCAL lock_timeout = '60s'; SET LOCAL idle_in_transaction_session_timeout = '60s';
			SET LOCAL client_min_messages = warning;
			SELECT pg_advisory_xact_lock(%d);
			CREATE TABLE IF NOT EXISTS schema_migrations (number int PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())`,
			uint64(migrationLock))).ReadAll()
		if err != nil {
			return err
		}
		if err := runNew(ctx, tx); err != nil {
			return err
		}
		for _, st := range relational.Seed(dialect(), numbersBelow) {
			if _, err := tx.Exec(ctx, st.SQL, st.Args...); err != nil {
				return err
			}
		}
		return checkLevel(ctx, tx)
	})
}

// readable finds out that the schema is one that this release reads, and changes nothing.
func (d *db) readable(ctx context.Context) error {
	ctx, cancel := d.deadline(ctx, d.opts.CallTimeout)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, d.pools[relational.Work], pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		var there bool
		if err := tx.QueryRow(ctx, `SELECT to_regclass('schema_migrations') IS NOT NULL`).Scan(&there); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%w: this database holds no catalog", catalog.ErrLevel)
		}
		have, err := migrated(ctx, tx)
		if err != nil {
			return err
		}
		files, err := migrations.ReadDir("migrations")
		if err != nil {
			return err
		}
		if have < len(files) {
			return fmt.Errorf("%w: the schema is at migration %d and this release reads %d; start a broker of this release first, which brings it up", catalog.ErrLevel, have, len(files))
		}
		return checkLevel(ctx, tx)
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("catalog schema: %w", d.judge(relational.Work, err))
}

// migrated is the number of the newest migration that the database has seen.
func migrated(ctx context.Context, tx pgx.Tx) (have int, err error) {
	err = tx.QueryRow(ctx, `SELECT coalesce(max(number), 0) FROM schema_migrations`).Scan(&have)
	return have, err
}

func runNew(ctx context.Context, tx pgx.Tx) error {
	have, err := migrated(ctx, tx)
	if err != nil {
		return err
	}
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return err
	}
	for _, f := range files {
		number, err := strconv.Atoi(f.Name()[:strings.IndexByte(f.Name(), '_')])
		if err != nil {
			return fmt.Errorf("migration %s has no number: %w", f.Name(), err)
		}
		if number <= have {
			continue
		}
		text, err := migrations.ReadFile("migrations/" + f.Name())
		if err != nil {
			return err
		}
		if _, err := tx.Conn().PgConn().Exec(ctx, string(text)).ReadAll(); err != nil {
			return fmt.Errorf("migration %s: %w", f.Name(), err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO schema_migrations (number, name) VALUES ($1, $2)`, number, f.Name()); err != nil {
			return err
		}
	}
	return nil
}

func checkLevel(ctx context.Context, tx pgx.Tx) error {
	var level int
	if err := tx.QueryRow(ctx, `SELECT level FROM cluster`).Scan(&level); err != nil {
		return err
	}
	if level > relational.Level {
		return fmt.Errorf("%w: level %d, this one knows %d", catalog.ErrLevel, level, relational.Level)
	}
	return nil
}
