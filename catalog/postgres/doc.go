// Package postgres is the catalog of a cluster: catalog/relational's transactions on a Postgres of
// version 14 or later.
//
// Place in the house: it implements relational.DB on pgx; cmd and broker open it, nobody else knows
// it. There are no metrics and no log here: errors say what happened, the caller counts them.
//
// Travel: a write is at most two round trips, BEGIN with all locking reads and then all changes with
// COMMIT; one that decides by its own WHERE is one. So no paused client holds the counter's row, and
// what it does hold the server gives back after two seconds (H13). Leases have a pool of their own.
//
// Deadlines: a call without one gets Options.CallTimeout. The server's statement and lock timeouts
// lie below the call's, because a context that ends first costs the connection (P15).
//
// Faults: conflicts (40001, 40P01, a lost race for a unique key) are tried again with jitter, at most
// five times. A server that shuts down, became read-only or vanished empties the pool, so that the
// next call asks the URL again (K8), and the error is marked unavailable: nothing is known of a COMMIT.
//
// Invariant: no state but the pools; no session state outlives a transaction when Options.Pooler says
// that another process multiplexes the sessions (K4).
package postgres
