// Package record reads, judges, stamps and builds Kafka record batches of
// format 2 (magic 2), the only unit in which Tidemark stores records.
//
// Place in the house: the bottom. It imports nothing of ours, does no I/O, holds
// no clock and starts no goroutine; every other package shares its words
// (Offset, Epoch) and its one opinion of what a good batch is (Judge).
//
// A batch lies in memory as it lies on disk, on the wire and in an object:
//
//	 0  int64  base offset             not under the CRC: stamped by the leader
//	 8  int32  length                  of everything after this field
//	12  int32  leader epoch            not under the CRC: stamped by the leader
//	16  int8   magic                   2
//	17  uint32 CRC-32C                 of everything from byte 21 on
//	21  int16  attributes              0-2 codec, 3 append time, 4 transactional,
//	                                   5 control, 6 delete horizon (KIP-534)
//	23  int32  last offset delta
//	27  int64  base timestamp          the delete horizon when bit 6 is set
//	35  int64  max timestamp
//	43  int64  producer id             -1: none
//	51  int16  producer epoch
//	53  int32  base sequence           -1: none
//	57  int32  record count
//	61  records, compressed as one stream if the codec says so
//
// Locks: none. The pools of decompressors are the only shared state.
//
// Invariants:
//   - A batch that Judge accepts under the rules of a produce is accepted by it
//     under those of a follower and of a publish (R4, H19).
//   - Judging and decoding need memory bounded by constants and by the size of
//     the input, never by a number that the input claims.
//   - A batch's header keeps its offsets, sequences and timestamps however many
//     of its records compaction took out (H9).
package record
