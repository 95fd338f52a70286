// Package segment knows the files of one local segment: their names, Kafka's
// index formats, and how to walk and check a run of batches in a file.
//
// Place in the house: below hotlog, above record. Locks: none; an [Index] belongs
// to whoever guards it.
//
// Invariants:
//   - Index entries rise strictly in offset and in position, and each names the
//     first byte of a batch and that batch's last offset.
//   - A [Walker] and [Scan] hold a window of fixed size or one batch, never the file.
package segment
