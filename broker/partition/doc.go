// Package partition joins the two tiers of each partition of this broker: the hot log on disk and the
// objects in the bucket, under one leadership, one high watermark and one pair of bounds.
//
// Place in the house: a room of broker. It is the only place that imports hotlog, tiering and retention
// together; handler asks it for appends, fetches and offsets, and the metadata follower tells it which
// partitions exist and who leads them ([Set.Reconcile]).
//
// A [Partition] is open on every replica and leads on one. What moves:
//
//	start, tiered   the catalog's; cached here, raised by publishes, DeleteRecords and retention
//	hw              every record below it is in each in-sync replica; with one replica, the log's end
//	stable          before the first undecided transaction, never above hw
//
// Lock order: Partition.roleMu (held in read mode over an append, in write mode while leadership
// changes) before the log's own locks; Partition.mu (bounds, holds, timers) is a leaf and never held
// over I/O; Set.mu (the map) is a leaf too. The locks of who waits, a partition's watchers' before a request's
// (Acks), come last.
//
// Invariants:
//   - An append happens under the leadership that it began with; a wait for its acknowledgement ends
//     with that leadership (R17, H11).
//   - Whatever an acknowledgement or a fetch depends on is changed first and told to the watchers then; who
//     waits watches first and looks then. So no move is missed, and several may be told together ([Arrivals]).
//   - Local bytes are freed only below the smaller of two looks at the catalog, free.delay apart, and
//     never while an upload has asked to hold them (R5, R8).
//   - A log that begins above tiered, or ends below it, is not led before it has been made right (R18,
//     A15).
package partition
