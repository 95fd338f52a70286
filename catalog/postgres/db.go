package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"tidemark/catalog/relational"
)

// db carries relational's transactions to Postgres.
type db struct {
	opts    Options
	pools   [2]*pgxpool.Pool // by lane
	closing context.Context
	close   context.CancelFunc
}

func newDB(work, leases *pgxpool.Pool, opts Options) *db {
	d := &db{opts: opts, pools: [2]*pgxpool.Pool{relational.Work: work, relational.Leases: leases}}
	d.closing, d.close = context.WithCancel(context.Background())
	return d
}

// Close ends the calls in flight, then the connections.
func (d *db) Close() error {
	d.close()
	for _, p := range d.pools {
		p.Close()
	}
	return nil
}

// deadline gives ctx one if it has none, and ends it when the store is closed.
func (d *db) deadline(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	cancelDeadline := context.CancelFunc(func() {})
	if _, has := ctx.Deadline(); !has {
		ctx, cancelDeadline = context.WithTimeout(ctx, limit)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.closing, cancel)
	return ctx, func() {
		stop()
		cancel()
		cancelDeadline()
	}
}

const maxTries = 6

// Write is relational.DB's.
func (d *db) Write(ctx context.Context, lane relational.Lane, decide func(relational.Tx) error) error {
	ctx, cancel := d.deadline(ctx, d.opts.CallTimeout)
	defer cancel()
	for try := 1; ; try++ {
		t := &tx{ctx: ctx, d: d}
		refusal, err := d.writeOnce(lane, t, decide)
		switch {
		case errors.Is(refusal, relational.ErrDone):
			return nil
		case refusal != nil || err == nil:
			return refusal
		}
		judged := d.judge(lane, err)
		if !again(classify(err), t.sent, try) || !pause(ctx, try) {
			return judged
		}
	}
}

// again says whether a failed try is repeated: after a conflict a few times; after a loss once, if
// nothing that could have been carried out was sent, because a pooled connection may have died long ago.
func again(f fault, sent bool, try int) bool {
	return (f == conflict && try < maxTries) || (f == lost && !sent && try == 1)
}

// pause waits up to 5 ms, doubled with each try; false if ctx ended.
func pause(ctx context.Context, try int) bool {
	t := time.NewTimer(rand.N(5 * time.Millisecond << try))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// writeOnce is one try. refusal is the decision's own error, err the database's.
func (d *db) writeOnce(lane relational.Lane, t *tx, decide func(relational.Tx) error) (refusal, err error) {
	if t.conn, err = d.pools[lane].Acquire(t.ctx); err != nil {
		return nil, noConnection{err}
	}
	defer release(t.conn)
	refusal = decide(t)
	if t.err == nil && refusal == nil && len(t.queued) > 0 {
		t.awake()
	}
	switch {
	case t.err != nil:
		t.rollback()
		return nil, t.err
	case refusal != nil || len(t.queued) == 0:
		t.rollback()
		return refusal, nil
	}
	b := t.begin()
	queue(b, t.queued)
	b.Queue("COMMIT")
	t.sent = true
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		t.rollback()
		return nil, err
	}
	return nil, nil
}

// tx is a transaction on one connection.
type tx struct {
	ctx    context.Context
	d      *db
	conn   *pgxpool.Conn
	begun  bool
	asked  time.Time // when the server last answered
	queued []relational.Stmt
	sent   bool  // COMMIT is on its way: an error leaves the outcome unknown
	err    error // the database's, however decide wraps it
}

// awake asks the server whether it has ended a transaction whose decision took long. Without it the
// answer to that question could not be told from a lost COMMIT.
func (t *tx) awake() {
	if t.begun && time.Since(t.asked) > idleLimit/2 {
		_ = t.Read(relational.Stmt{SQL: "SELECT 1"})
	}
}

// begin starts a batch, with BEGIN and the call's own settings unless it has begun.
func (t *tx) begin() *pgx.Batch {
	b := &pgx.Batch{}
	if t.begun {
		return b
	}
	b.Queue("BEGIN")
	t.d.settings(t.ctx, b)
	t.begun = true
	return b
}

// settings adds timeouts that lie below the call's deadline where those of the connection do not, and
// everything else that a session behind a pooler does not keep.
func (d *db) settings(ctx context.Context, b *pgx.Batch) {
	left := d.opts.CallTimeout
	if until, has := ctx.Deadline(); has {
		left = min(left, time.Until(until))
	}
	if !d.tight(ctx) && !d.opts.Pooler {
		return
	}
	t := timeouts(left)
	b.Queue(`SELECT set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $2::text, true)`, t.statement, t.lock)
	if d.opts.Pooler {
		b.Queue(`SELECT set_config('synchronous_commit', 'on', true), set_config('idle_in_transaction_session_timeout', $1::text, true)`, idleInTransaction)
	}
}

// tight says whether a call ends before the timeouts of its connection.
func (d *db) tight(ctx context.Context) bool {
	until, has := ctx.Deadline()
	return has && time.Until(until) < d.opts.CallTimeout*9/10
}

// Read is relational.Tx's.
func (t *tx) Read(stmts ...relational.Stmt) error {
	b := t.begin()
	queue(b, stmts)
	t.err = t.conn.SendBatch(t.ctx, b).Close()
	t.asked = time.Now()
	return t.err
}

// Queue is relational.Tx's.
func (t *tx) Queue(stmts ...relational.Stmt) { t.queued = append(t.queued, stmts...) }

// rollback leaves a connection that still works fit for the next call; one that does not is destroyed
// when it is released.
func (t *tx) rollback() {
	if !t.begun || t.conn.Conn().IsClosed() || t.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Second)
	defer cancel()
	_, _ = t.conn.Exec(ctx, "ROLLBACK")
}

func queue(b *pgx.Batch, stmts []relational.Stmt) {
	for _, st := range stmts {
		text := st.SQL
		if st.Lock != "" {
			text += " " + st.Lock
		}
		q := b.Queue(text, st.Args...)
		switch {
		case st.Row != nil:
			q.Query(func(rows pgx.Rows) error { return eachRow(rows, st.Row) })
		case st.Changed != nil:
			q.Exec(func(tag pgconn.CommandTag) error {
				st.Changed(tag.RowsAffected())
				return nil
			})
		}
	}
}

func eachRow(rows pgx.Rows, row func(relational.Row) error) error {
	for rows.Next() {
		if err := row(rows); err != nil {
			return rowFault{err}
		}
	}
	return rows.Err()
}

// release gives a connection back. One that ended in the middle of a call leaves the pool at once: pgx
// goes on for up to 15 s to cancel its statement, and the pool would not make another meanwhile (K3).
func release(conn *pgxpool.Conn) {
	if !conn.Conn().IsClosed() {
		conn.Release()
		return
	}
	_ = conn.Hijack().PgConn().Conn().Close()
}

// Read is relational.DB's. Nothing is lost with a connection, so another one is asked before a loss is
// reported; rows that the first one gave are given again only if it gave none.
func (d *db) Read(ctx context.Context, stmts ...relational.Stmt) error {
	ctx, cancel := d.deadline(ctx, d.opts.CallTimeout)
	defer cancel()
	for try := 1; ; try++ {
		given := false
		err := d.readOnce(ctx, noting(stmts, &given))
		if err == nil {
			return nil
		}
		judged := d.judge(relational.Work, err)
		if given || !again(classify(err), false, try) || !pause(ctx, try) {
			return judged
		}
	}
}

// noting is stmts with a note whether any has given a row.
func noting(stmts []relational.Stmt, given *bool) []relational.Stmt {
	out := make([]relational.Stmt, len(stmts))
	for i, st := range stmts {
		row := st.Row
		st.Row = func(r relational.Row) error {
			*given = true
			return row(r)
		}
		out[i] = st
	}
	return out
}

func (d *db) readOnce(ctx context.Context, stmts []relational.Stmt) error {
	conn, err := d.pools[relational.Work].Acquire(ctx)
	if err != nil {
		return noConnection{err}
	}
	defer release(conn)
	b := &pgx.Batch{}
	whole := len(stmts) > 1 || d.tight(ctx)
	if whole {
		b.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
		d.settings(ctx, b)
	}
	queue(b, stmts)
	if whole {
		b.Queue("COMMIT")
	}
	err = conn.SendBatch(ctx, b).Close()
	if err != nil && whole {
		(&tx{ctx: ctx, d: d, conn: conn, begun: true}).rollback()
	}
	return err
}
