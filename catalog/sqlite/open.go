package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidemark/catalog"
	"tidemark/catalog/relational"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Store is the catalog in one file.
type Store struct {
	*relational.Store
	db *db
}

// Open opens the file at path, made with its folder if need be, brings its schema up to this release
// and returns a store that is ready. ErrLocked if another process has it open; catalog.ErrLevel if a
// newer release has written here.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	lock, err := lockFile(path)
	if err != nil {
		return nil, err
	}
	d := &db{opts: opts.withDefaults(), lock: lock}
	if err := d.open(path); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.migrate(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("catalog schema of %s: %w", path, err), d.Close())
	}
	return &Store{relational.New(d, dialect()), d}, nil
}

// open makes the pools; the first connection is made by the first statement.
func (d *db) open(path string) (err error) {
	if d.writer, err = pool(path, 1, "synchronous(FULL)", "journal_mode(WAL)", "foreign_keys(1)", "cache_size(-2048)"); err != nil {
		return err
	}
	d.readers, err = pool(path, d.opts.Readers, "query_only(1)", "cache_size(-1024)")
	return err
}

func pool(path string, conns int, pragmas ...string) (*sql.DB, error) {
	q := url.Values{"_pragma": append([]string{"busy_timeout(2000)"}, pragmas...)}
	p, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	p.SetMaxOpenConns(conns)
	p.SetMaxIdleConns(conns)
	p.SetConnMaxIdleTime(10 * time.Minute)
	return p, nil
}

// migrateTimeout bounds all migrations: they are one transaction, and a start that waits for a slow disk is better than none.
const migrateTimeout = time.Minute

// migrate runs the migrations that the file has not seen, in one transaction.
func (d *db) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return transact(ctx, conn, "BEGIN IMMEDIATE", func() error {
		if _, err := conn.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations
			(number INTEGER PRIMARY KEY, name TEXT NOT NULL, at INTEGER NOT NULL DEFAULT (unixepoch() * 1000)) STRICT`); err != nil {
			return err
		}
		if err := runNew(ctx, conn); err != nil {
			return err
		}
		for _, st := range relational.Seed(dialect(), numbersBelow) {
			if _, err := conn.ExecContext(ctx, d.plain.text(st.SQL), st.Args...); err != nil {
				return err
			}
		}
		var level int
		if err := conn.QueryRowContext(ctx, `SELECT level FROM cluster`).Scan(&level); err != nil {
			return err
		}
		if level > relational.Level {
			return fmt.Errorf("%w: level %d, this one knows %d", catalog.ErrLevel, level, relational.Level)
		}
		return nil
	})
}

func runNew(ctx context.Context, conn *sql.Conn) error {
	var have int
	if err := conn.QueryRowContext(ctx, `SELECT coalesce(max(number), 0) FROM schema_migrations`).Scan(&have); err != nil {
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
		if _, err := conn.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("migration %s: %w", f.Name(), err)
		}
		if _, err := conn.ExecContext(ctx, `INSERT INTO schema_migrations (number, name) VALUES ($1, $2)`, number, f.Name()); err != nil {
			return err
		}
	}
	return nil
}
