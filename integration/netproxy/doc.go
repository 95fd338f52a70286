// Package netproxy stands on the way to one server and lets each of its clients be cut off, slowed or held up without the
// others: what a network does to a cluster, on loopback.
//
// Place in the house: test-only; integration/chaos puts one before every listener and store of a broker.
//
// Lock order: Proxy.mu, held over no I/O. A link that is held waits on a channel which every change of the rules closes.
//
// Invariants: every goroutine ends with the proxy; bytes that were held are passed on in order when the way is free again,
// as TCP does after a partition, and so is the news that a side has closed.
package netproxy
