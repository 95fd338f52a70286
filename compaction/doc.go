// Package compaction decides which objects of a partition are rewritten, and rewrites them: by key for
// topics that compact, joining small neighbours for all. It sees objects as streams through a port that
// the broker fills with the object tier, and rows through the catalog.
//
// Place in the house: it imports record and catalog. The broker joins it with tiering. A [Worker] does the
// work of the partitions it is told of; a partition's work is a leased job, so that any number of workers
// may try.
//
//	plan      plan.go join.go            pure: rows, policy and time in, a decision out
//	choice    meet.go                    which rows take part, by a sample of their digests
//	merge     digest.go mark.go          sorted digests as streams: which records others supersede
//	rewrite   input.go filter.go transaction.go rewrite.go   what stays of an object
//	pass      pass.go fate.go            a run of rows, lowest first
//	work      worker.go lane.go job.go   when, under which lease
//
// Lock order: Worker.mu is a leaf and is not held over I/O.
//
// Invariants (R15):
//   - A record goes only if a newer one of its key lies in the same run of committed rows. Aborted
//     records and markers are in no digest and supersede nothing (H9).
//   - A tombstone goes only delete.retention.ms after its row became clean, in a pass that finds no older
//     record of its key in the committed rows; a marker likewise, once no record of its transaction is
//     left (H10, C1).
//   - Swaps commit in offset order, lowest first; a refused swap ends the pass.
//   - The last batch of every range stays, emptied if need be. No offset, timestamp or order changes.
//   - Nothing is put that was made of an input whose length or SHA-256 differs from its row (C11).
//   - What reads ahead is owned by the rewrite, which ends it before it ends itself, and goes no further than its windows:
//     a pass that is paced is so in all of its parts.
//   - Memory is bounded by Options.Memory and one object's size, not by the partition (R20): where marks do
//     not fit, a pass works through the run in several parts; where streams do not fit, it merges group by
//     group.
package compaction
