// Package producer holds what a run of record batches says of the producers that
// wrote it: the last batches of each idempotent producer (to tell a retry from a
// new batch, KIP-98), the transactions that are open (to know where the last
// stable offset stands) and those that were aborted.
//
// Place in the house: pure, beside record. A hot log keeps one State per
// partition and follows its appends with it; the tier computes the same from the
// previous object's State and the batches of the next (R2, R11).
//
// Locks: none; a State belongs to whoever holds the partition's append lock.
// AbortedList values may be read by many.
//
// Invariants:
//   - State is a function of the batches applied in offset order, their append
//     times, and the calls of Expire; equal states encode to equal bytes.
//   - A producer is forgotten by time, or when MaxProducers is reached, longest
//     idle first; never because its records went (F6), never while it has an
//     open transaction.
//   - Check changes nothing. What Check let pass and was appended must be applied
//     before the next Check.
//   - State cannot be taken back. Who truncates a log decodes the last snapshot
//     below the cut and applies the batches between (H11).
package producer
