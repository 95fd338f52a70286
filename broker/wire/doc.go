// Package wire speaks the framing of the Kafka protocol: it listens, reads
// frames, parses request headers and bodies with kmsg, hands each request to
// one Handler and writes the answers. It knows nothing of topics or
// partitions.
//
// Place in the house: broker builds a Server from its listeners and runs it
// with the handler table; nothing else opens client sockets. wire imports
// nothing of ours.
//
// A connection has two goroutines. The reader takes one frame after the
// other and calls Handler.Handle inline, so requests take effect in the order
// in which they came (R19, H12). The writer sends the answers in that same
// order (H7); a request that has to wait hands in a Pending, and only that
// wait is parallel. An answer is bound to the Conn object, never to an
// address or id (H15).
//
// Memory is bounded by Options (R20, P3): the bytes of a request are taken
// from a Budget before they are read off the socket, Produce and everything
// else from separate budgets, so a follower's fetch never waits behind the
// produce that waits for it. The buffer goes back when Handle returns, which
// for a produce is when its append is done; a handler that needs the bytes
// longer says Retain. Answers that wait hold no request bytes; large ones take
// from a budget of their own (answers.go) before they are begun.
//
// Invariants:
//   - every accepted request gets exactly one slot in its connection's queue,
//     and every Body is released exactly once, written or not;
//   - a body that does not write exactly Size bytes closes the connection,
//     since the frames after it could not be told apart;
//   - a panic in a handler or encoder closes that connection only.
//
// Lock order: Server.mu is a leaf; nothing is called while it is held. A Conn
// has no mutex.
package wire
