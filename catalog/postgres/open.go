package postgres

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"tidemark/catalog/relational"
)

// leaseConns is the size of the pool that only leases use.
const leaseConns = 2

// Store is the catalog on Postgres.
type Store struct {
	*relational.Store
	db *db
}

// Open connects, brings the schema up to this release (with Options.ReadOnly: finds it so) and returns a store that is
// ready. url is a
// postgres:// URL as libpq reads it; of several hosts the one that takes writes is used.
// catalog.ErrLevel if a newer release has written here; an error for which catalog.Unavailable holds
// if the server cannot be reached.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	work, err := newPool(url, opts, opts.MaxConns)
	if err != nil {
		return nil, err
	}
	leases, err := newPool(url, opts, leaseConns)
	if err != nil {
		work.Close()
		return nil, err
	}
	db := newDB(work, leases, opts)
	ready := db.migrate
	if opts.ReadOnly {
		ready = db.readable
	}
	if err := ready(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Store{relational.New(db, dialect()), db}, nil
}

func newPool(url string, opts Options, conns int) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("catalog URL: %w", err)
	}
	cfg.MaxConns = int32(conns)
	cfg.MinConns = 0
	cfg.MaxConnLifetime = 30 * time.Minute
	cfg.MaxConnLifetimeJitter = 5 * time.Minute
	// A dead connection shows at its first use and is replaced there; a ping would only show it later.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	cc := cfg.ConnConfig
	cc.DialFunc = (&net.Dialer{Timeout: opts.CallTimeout / 2, KeepAlive: 15 * time.Second}).DialContext
	if cc.ConnectTimeout == 0 || cc.ConnectTimeout > opts.CallTimeout {
		cc.ConnectTimeout = opts.CallTimeout / 2
	}
	if cc.ValidateConnect == nil && !opts.ReadOnly {
		cc.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if opts.Pooler {
		cc.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		return pgxpool.NewWithConfig(context.Background(), cfg)
	}
	t := timeouts(opts.CallTimeout)
	cc.RuntimeParams["application_name"] = "tidemark"
	cc.RuntimeParams["synchronous_commit"] = "on"
	cc.RuntimeParams["idle_in_transaction_session_timeout"] = idleInTransaction
	cc.RuntimeParams["statement_timeout"] = t.statement
	cc.RuntimeParams["lock_timeout"] = t.lock
	if opts.ReadOnly {
		cc.RuntimeParams["default_transaction_read_only"] = "on"
	}
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

// idleInTransaction is how long a client that is paused inside a transaction may hold its locks (H13).
const (
	idleLimit         = 2 * time.Second
	idleInTransaction = "2000"
)

// serverTimeouts are in milliseconds, as Postgres reads them.
type serverTimeouts struct{ statement, lock string }

// timeouts lie below a call that has d left: the server must give up first.
func timeouts(d time.Duration) serverTimeouts {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
	return serverTimeouts{statement: ms(d * 7 / 10), lock: ms(d * 5 / 10)}
}
