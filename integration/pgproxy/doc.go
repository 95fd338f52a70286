// Package pgproxy stands between a client and a Postgres server and breaks the way between them: it
// loses the request or the reply of a COMMIT, stops passing bytes, resets connections, or leads new
// ones to another server. It understands just enough of the wire protocol to see a COMMIT.
//
// Place in the house: test-only; tests of catalog/postgres and of whole brokers use it.
//
// Lock order: Proxy.mu, held over no I/O. A frozen pump waits on the channel that Thaw closes.
//
// Invariants: every goroutine ends with the proxy; TLS and GSS encryption are declined, so that
// messages can be read; COMMITs of READ ONLY transactions are not counted, for nothing hangs on them.
package pgproxy
