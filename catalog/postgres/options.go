package postgres

import (
	"errors"
	"fmt"
	"time"
)

// Options of a store. Zero values mean the default in brackets.
type Options struct {
	// CallTimeout is the deadline of a call whose context has none, and what the server's own timeouts
	// are derived from [5 s].
	CallTimeout time.Duration
	// MaxConns bounds the connections for work; leases have two more [8].
	MaxConns int
	// Pooler says that a transaction pooler (pgbouncer) stands in between: no prepared statements, no
	// settings of a session.
	Pooler bool
	// ReadOnly promises that nothing is written: the schema is not brought up but must be this release's
	// (catalog.ErrLevel), and Postgres refuses what writes.
	ReadOnly bool
}

// Validate reports every fault of the options.
func (o Options) Validate() error {
	var errs []error
	if o.CallTimeout < 0 || (o.CallTimeout > 0 && o.CallTimeout < 100*time.Millisecond) {
		errs = append(errs, fmt.Errorf("call timeout %v is less than 100 ms", o.CallTimeout))
	}
	if o.MaxConns < 0 || o.MaxConns > 1000 {
		errs = append(errs, fmt.Errorf("%d connections is not between 1 and 1000", o.MaxConns))
	}
	return errors.Join(errs...)
}

func (o Options) withDefaults() Options {
	if o.CallTimeout == 0 {
		o.CallTimeout = 5 * time.Second
	}
	if o.MaxConns == 0 {
		o.MaxConns = 8
	}
	return o
}
