package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"tidemark/catalog"
	"tidemark/catalog/relational"
)

// fault is what an error of a transaction asks for.
type fault int

const (
	bug      fault = iota // ours, or of the data: returned as it is
	conflict              // another transaction won: nothing was written, try again
	late                  // the server gave up before its timeout: nothing was written
	lost                  // the server or the way to it: the outcome is not known
)

// rowFault marks an error of a Row callback, which the wire has nothing to do with.
type rowFault struct{ err error }

func (e rowFault) Error() string { return e.err.Error() }
func (e rowFault) Unwrap() error { return e.err }

// noConnection marks the error of a call that got no connection.
type noConnection struct{ err error }

func (e noConnection) Error() string { return e.err.Error() }
func (e noConnection) Unwrap() error { return e.err }

// classify reads an error that came out of pgx.
func classify(err error) fault {
	var row rowFault
	if errors.As(err, &row) || errors.Is(err, catalog.ErrLevel) {
		return bug
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return lost
	}
	switch pg.Code {
	case "40001", "40P01", // serialization failure, deadlock
		"23505", // another transaction made the same key: the next try reads it
		"0A000", // the plan of a prepared statement is older than a migration
		"25P03": // idle in transaction: our pause was too long, COMMIT was not sent
		return conflict
	case "57014", "55P03": // statement timeout, lock timeout
		return late
	case "25006": // read-only: this server is not the primary any more
		return lost
	}
	for _, class := range []string{"08", "57P", "53", "58", "XX"} {
		if strings.HasPrefix(pg.Code, class) {
			return lost
		}
	}
	return bug
}

// judge turns an error of pgx into one of the catalog's, and empties the pool if its connections lead
// to a server that is gone or became read-only (K8).
func (d *db) judge(lane relational.Lane, err error) error {
	switch classify(err) {
	case late:
		return catalog.MarkUnavailable(err)
	case lost:
		// A connection that gave no answer by the deadline, before which the server itself gives up, leads
		// nowhere, and so do its neighbours. Those who got none, or went away, know nothing of that.
		var none noConnection
		if !errors.As(err, &none) && !errors.Is(err, context.Canceled) {
			d.pools[lane].Reset()
		}
		return catalog.MarkUnavailable(err)
	case conflict:
		if hasCode(err, "23505") {
			return err // no race: the next try did not find the row either
		}
		return catalog.MarkUnavailable(err)
	}
	return err
}

func hasCode(err error, prefix string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && strings.HasPrefix(pg.Code, prefix)
}
