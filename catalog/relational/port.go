package relational

import (
	"context"
	"errors"
)

// Row is the row that a statement's result stands at.
type Row interface {
	Scan(dest ...any) error
}

// Stmt is one statement in Postgres' words. Casts (::type) mean nothing to a driver whose parameters
// have no types.
type Stmt struct {
	SQL  string
	Args []any
	// Lock is the locking clause that belongs at the end of SQL, "" for none. A driver whose
	// transactions exclude each other ignores it.
	Lock string
	// Row is called for every row of the result; nil for writes.
	Row func(Row) error
	// Changed is told how many rows the statement changed; nil if nobody asks.
	Changed func(n int64)
}

// Tx is a transaction in which reads come first.
type Tx interface {
	// Read runs the statements at once, in order; the first call begins the transaction.
	Read(stmts ...Stmt) error
	// Queue adds writes; they travel with COMMIT when the decision has returned.
	Queue(stmts ...Stmt)
}

// Lane says which connections a transaction may use.
type Lane int

// The lanes: work, and leases, which must not wait for work.
const (
	Work Lane = iota
	Leases
)

// DB is what a driver does for the store.
type DB interface {
	// Write runs decide in a transaction and commits what it queued. Decide may be called again after
	// a conflict with another transaction, so it must begin from nothing each time. An error of decide
	// rolls back and is returned as is, save [ErrDone], which rolls back and is nil: a transaction that
	// queues nothing needs no COMMIT. Every other error is marked unavailable if the outcome is not known.
	Write(ctx context.Context, lane Lane, decide func(Tx) error) error
	// Read runs the statements on one snapshot.
	Read(ctx context.Context, stmts ...Stmt) error
	// Close ends all connections.
	Close() error
}

// ErrDone ends a decision that found nothing to write.
var ErrDone = errors.New("nothing to write")

// Column is a column of a list of rows given as one parameter.
type Column struct {
	Name, Type string // Type in Postgres' words
}

// Dialect holds the words that differ between the databases. Params are written as in SQL, "$1".
type Dialect struct {
	// Now is the database's time, in the form of its time columns.
	Now string
	// Server is a number that tells this server's life from another's.
	Server string
	// Millis turns a time column into milliseconds, FromMillis a number of them into a time.
	Millis, FromMillis func(expr string) string
	// Ago is the time that lies the milliseconds of a parameter before now.
	Ago func(param string) string
	// List is a subquery of the elements of a JSON array.
	List func(param, typ string) string
	// Table is a FROM item of the objects of a JSON array.
	Table func(param, alias string, columns ...Column) string
	// HasMember says whether a column of members names the broker of a parameter.
	HasMember func(column, param string) string
}
