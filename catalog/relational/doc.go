// Package relational is the catalog as SQL: every transaction of [catalog.Store], written once for
// both stores. A driver gives it a [DB] (how statements travel) and a [Dialect] (the few words that
// differ); it holds no connection, clock or goroutine of its own.
//
// Place in the house: it imports catalog and record; catalog/postgres and catalog/sqlite import it,
// and nobody else does. What is allowed is decided by pure functions of package catalog.
//
// Shape of a write: one round trip BEGIN with all reads, each locking what the decision stands on; a
// decision in Go; one round trip with all writes and COMMIT. The counter is first touched in the
// second, which is in the server as a whole, so a client that is paused between the two holds locks
// on its own rows only, and the server ends it after two seconds (H13). Writes that decide by their
// own WHERE (Renew, Deleted) are one round trip.
//
// Lock order: controller, brokers, topics, partitions by (topic, partition), jobs, intents, slots, group_offsets,
// the counter last. Brokers and topics are locked FOR KEY SHARE by those who rely on them and FOR
// UPDATE by those who end them (Register, Release, DeleteTopic), so neither a lease renewal nor a
// config change waits for a publish. Offset commits lock slots before topics; nobody locks both in
// the other order.
//
// Invariants: those of package catalog. max_ts_upto of a row is right, or too large from
// partitions.upto_from on, and never falls from row to row (H25).
package relational
