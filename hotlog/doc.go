// Package hotlog keeps one partition's recent records on local disk: append,
// read, roll, free, truncate, recover.
//
// Place in the house: it imports record and its own folders only (segment: the
// files of one segment; disk: the file-system port). It alone deletes local
// files. It knows neither replication nor the object tier: high watermark,
// leadership, retention and uploads are the caller's; the caller says what may
// be freed (R5) and gives the tier's state to [Log.Reset] (R11, R18).
//
// A [Log] is a directory:
//
//	<base>.log                 record batches v2, exactly as Kafka writes them
//	<base>.index .timeindex    sparse indexes, Kafka's formats
//	<base>.txnindex            aborted transactions by marker, Kafka's format
//	<base>.snapshot            producer state at base; when the segment began
//	leader-epoch-checkpoint    epoch history, the tier's part included
//	recovery-point             below it everything was synced
//	reset                      only while a Reset runs: its plan
//
// Locks, in order:
//
//	Log.flushTurn   one flush at a time; held over fsync; whoever waits for it
//	                finds its bytes flushed by the one before (group fsync)
//	Log.mu          the append lock: offsets are given under it, and it is held
//	                over the one write(2) of an append (R19)
//	Log.txnMu       open and aborted transactions; never over I/O
//	segment locks   the handle and the index of one segment; never over I/O
//
// Readers take none of the first two: the end of the log, the list of segments
// and every segment's size are published with atomics, in the order bytes,
// segment, end, so that a reader never sees an offset whose write(2) has not
// returned (H11).
//
// Invariants:
//   - localStart is the first segment's base; at most the last segment is
//     active; each segment begins where the one before ends.
//   - After a failed write or fsync nothing is written by this process again
//     (H28). A full disk is not such a failure: the half-written bytes are cut
//     and the next append tries again (H18, L1).
//   - A file with bytes that no fsync has covered is not closed (H28).
//   - What lies below the stored recovery point is synced, and so are the
//     aborted transactions and epochs that it needs (I1, I4).
package hotlog
