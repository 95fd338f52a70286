// Package replay copies a range of a topic to another topic, to NDJSON, or to files of raw batches, so that a copy that
// was killed goes on without a lost or a doubled record.
//
// Place in the house: under cmd/tidemark, which has the flags and the progress bar. A [Source] is a cluster, through its
// brokers, or catalog and bucket without any broker; a [Target] is a topic, a stream of lines, or a folder.
//
// How it goes on after a kill (docs/adr/0007): the [Checkpoint], a file that is replaced as a whole
// every half second, holds the range and for each source partition how far it was copied. A file target is cut back to
// the length in the checkpoint. For a topic each source partition is an idempotent producer with an id of its own, whose
// sequence numbers count the records that it has copied to a target partition: the batches behind the checkpoint's place
// in the target say how many came after it, and those are passed over. What the killed process had still on its way
// either lies in the target by then or is refused by the broker, because its sequence number is taken.
//
// Lock order: Checkpoint.mu, then nothing; it is held over writes to output files, which is what keeps them and the
// checkpoint together.
//
// Invariants: a source partition's records reach a target partition in their order; every record of the range that is
// committed and passes the filter exactly once.
package replay
