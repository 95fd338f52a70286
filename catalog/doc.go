// Package catalog is the vocabulary of what exists and where: the cluster, its brokers, topics and
// partitions, the segments of the object tier, the intents and garbage of uploads, and the offsets
// that groups commit.
//
// Place in the house: it imports record and nothing else of ours. hotlog, tiering, replication,
// retention, compaction and broker speak to each other in its words. The two stores,
// catalog/postgres and catalog/sqlite, implement [Store]; catalog/catalogtest holds both to one
// contract.
//
// Invariants that every store keeps, by the database itself where it can:
//
//   - The row is the only truth (R1). An object that no row names does not exist.
//   - Per partition start ≤ tiered, neither ever falls, and the live segments cover [start's row,
//     tiered) without hole or overlap (R4).
//   - Every leader-side write carries a [Guard]; the guard stands in the row that is written or its
//     row is locked in the same transaction (R10). A guard that no longer holds is [ErrFenced].
//   - Every write has a natural unique key, so that the same call after an unclear COMMIT is
//     answered as the first would have been (K5).
//   - One counter, [Version], orders changes of topics, configs, brokers, leaders, in-sync sets and
//     slots. Publishes, start moves, offset commits, leases and garbage do not touch it (H13). Each of
//     its values has a random nonce in the ledger (H2).
//
// Errors: a call returns one of the sentinels of errors.go, wrapped with the offending values, or an
// error for which [Unavailable] reports true (the store cannot be asked; nothing is known of the
// outcome of a write), or a bug.
package catalog
