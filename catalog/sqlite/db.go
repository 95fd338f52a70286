package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"sync"
	"time"

	"modernc.org/sqlite"

	"tidemark/catalog"
	"tidemark/catalog/relational"
)

// db carries relational's transactions to a SQLite file.
type db struct {
	opts            Options
	lock            *os.File
	plain           plain
	writer, readers *sql.DB
	once            sync.Once
	closed          error
}

// Close ends the connections and gives the file to others.
func (d *db) Close() error {
	d.once.Do(func() {
		for _, p := range []*sql.DB{d.readers, d.writer} {
			if p != nil {
				d.closed = errors.Join(d.closed, p.Close())
			}
		}
		d.closed = errors.Join(d.closed, d.lock.Close())
	})
	return d.closed
}

func (d *db) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d.opts.CallTimeout)
}

// transact runs work between begin and COMMIT, or ROLLBACK if it fails.
func transact(ctx context.Context, conn *sql.Conn, begin string, work func() error) error {
	if _, err := conn.ExecContext(ctx, begin); err != nil {
		return err
	}
	err := work()
	if err == nil {
		if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
			return nil
		}
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, undoErr := conn.ExecContext(undo, "ROLLBACK"); undoErr != nil {
		// A connection that may still be inside a transaction is thrown away.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	return err
}

// Write is relational.DB's. Both lanes use the one connection that writes: its transactions are short.
func (d *db) Write(ctx context.Context, _ relational.Lane, decide func(relational.Tx) error) error {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return judge(err)
	}
	defer func() { _ = conn.Close() }()
	t := &tx{ctx: ctx, d: d, conn: conn}
	var refusal error
	err = transact(ctx, conn, "BEGIN IMMEDIATE", func() error {
		if refusal = decide(t); refusal != nil {
			return refusal
		}
		for _, st := range t.queued {
			if err := d.run(ctx, conn, st); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case t.err != nil:
		return judge(t.err)
	case errors.Is(refusal, relational.ErrDone):
		return nil
	case refusal != nil:
		return refusal
	}
	return judge(err)
}

// tx is a transaction on the writing connection.
type tx struct {
	ctx    context.Context
	d      *db
	conn   *sql.Conn
	queued []relational.Stmt
	err    error // the database's, however decide wraps it
}

// Read is relational.Tx's.
func (t *tx) Read(stmts ...relational.Stmt) error {
	for _, st := range stmts {
		if err := t.d.run(t.ctx, t.conn, st); err != nil {
			t.err = err
			return err
		}
	}
	return nil
}

// Queue is relational.Tx's.
func (t *tx) Queue(stmts ...relational.Stmt) { t.queued = append(t.queued, stmts...) }

// Read is relational.DB's.
func (d *db) Read(ctx context.Context, stmts ...relational.Stmt) error {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	conn, err := d.readers.Conn(ctx)
	if err != nil {
		return judge(err)
	}
	defer func() { _ = conn.Close() }()
	if len(stmts) == 1 {
		return judge(d.run(ctx, conn, stmts[0]))
	}
	return judge(transact(ctx, conn, "BEGIN", func() error {
		for _, st := range stmts {
			if err := d.run(ctx, conn, st); err != nil {
				return err
			}
		}
		return nil
	}))
}

// run carries out one statement. Its locking clause is left out: whoever writes is alone.
func (d *db) run(ctx context.Context, conn *sql.Conn, st relational.Stmt) error {
	text := d.plain.text(st.SQL)
	if st.Row == nil {
		res, err := conn.ExecContext(ctx, text, st.Args...)
		if err != nil || st.Changed == nil {
			return err
		}
		n, err := res.RowsAffected()
		st.Changed(n)
		return err
	}
	rows, err := conn.QueryContext(ctx, text, st.Args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := st.Row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Primary result codes after which the file could not be asked: https://www.sqlite.org/rescode.html
const (
	busy      = 5
	locked    = 6
	noMemory  = 7
	readOnly  = 8
	interrupt = 9
	ioError   = 10
	full      = 13
	cantOpen  = 14
)

// judge turns an error of the driver into one of the catalog's.
func judge(err error) error {
	var e *sqlite.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, sql.ErrConnDone),
		err.Error() == "sql: database is closed":
		return catalog.MarkUnavailable(err)
	case errors.As(err, &e):
		switch e.Code() & 0xff {
		case busy, locked, noMemory, readOnly, interrupt, ioError, full, cantOpen:
			return catalog.MarkUnavailable(err)
		}
	}
	return err
}
