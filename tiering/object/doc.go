// Package object is the layout of one remote segment: what the bytes of an object in the bucket mean,
// and what the object is called. It is pure: bytes in, values out.
//
// Place in the house: tiering builds and reads objects with it; compaction builds them through a port.
// It imports record and record/producer.
//
//	0              record batches, verbatim              DataBytes long
//	DataBytes      key digests                           compacted topics only
//	               producer state at the end             for the next upload, rebuilt replicas
//	TailPosition   aborted transactions                  what readers need, one small GET
//	               epoch history since the log's start
//	               time index
//	               offset index
//	               footer: ranges, names, block table
//	               trailer: 16 bytes
//
// docs/format/object.md has the diagrams byte by byte; testdata/object-v1.golden is version 1.
//
// Locks: none. A [Builder] belongs to one goroutine; a [Tail] is immutable and may be shared.
//
// Invariants:
//   - Everything after the data is computed from the previous object's state and this object's batches
//     (R2), never copied from local index files (I8), except the aborted transactions, whose markers
//     may lie in later segments (H9).
//   - One function judges a batch, here as at produce: record.Judge (R4, A8).
//   - The footer alone is enough to make the catalog row again, but for the SHA-256 of the whole.
//   - Parsers trust nothing: memory is bounded by the input, every block has a CRC-32C.
package object
