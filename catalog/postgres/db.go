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
		refusal, err := d.writeOnce(ctx, lane, decide)
		switch {
		case errors.Is(refusal, relational.ErrDone):
			return nil
		case refusal != nil || err == nil:
			return refusal
		}
		if classify(err) != conflict || try == maxTries || !pause(ctx, try) {
			return d.judge(lane, err)
		}
	}
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
func (d *db) writeOnce(ctx context.Context, lane relational.Lane, decide func(relational.Tx) error) (refusal, err error) {
	conn, err := d.pools[lane].Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	tx := &tx{ctx: ctx, d: d, conn: conn}
	if refusal = decide(tx); tx.err != nil {
		tx.rollback()
		return nil, tx.err
	}
	if refusal != nil || len(tx.queued) == 0 {
		tx.rollback()
		return refusal, nil
	}
	b := tx.begin("BEGIN")
	queue(b, tx.queued)
	b.Queue("COMMIT")
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		tx.rollback()
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
	queued []relational.Stmt
	err    error // the database's, however decide wraps it
}

// begin starts a batch, with BEGIN and the call's own settings unless it has begun.
func (t *tx) begin(how string) *pgx.Batch {
	b := &pgx.Batch{}
	if t.begun {
		return b
	}
	b.Queue(how)
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
	b := t.begin("BEGIN")
	queue(b, stmts)
	if err := t.conn.SendBatch(t.ctx, b).Close(); err != nil {
		t.err = err
		return err
	}
	return nil
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

// Read is relational.DB's.
func (d *db) Read(ctx context.Context, stmts ...relational.Stmt) error {
	ctx, cancel := d.deadline(ctx, d.opts.CallTimeout)
	defer cancel()
	err := d.readOnce(ctx, stmts)
	if err == nil {
		return nil
	}
	return d.judge(relational.Work, err)
}

func (d *db) readOnce(ctx context.Context, stmts []relational.Stmt) error {
	conn, err := d.pools[relational.Work].Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
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
