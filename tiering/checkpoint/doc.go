// Package checkpoint is the bucket's own copy of the catalog, for the day on which the catalog is lost:
// topics, configs, partitions, live rows, committed offsets (H21). It is never read while the catalog is
// there, save its first lines, by which a broker sees that its catalog has gone back in time.
//
// Place in the house: a room of tiering. The broker runs a [Writer]; tiering/rebuild reads with [Newest]
// and [Checkpoint.Rows]. The layout is in docs/format/checkpoint.md.
//
// Keys: checkpoints/<generation>/<number> is a head, checkpoints/<generation>/<number>-<part> holds rows.
// A full checkpoint has the rows of all live segments in parts of its own; one that is not full names the
// parts of the last full one and adds the rows whose ids are newer.
//
// Invariants: a head is written after its parts, so a head that is there is whole; no key is written
// twice by one writer; what is pruned is what no kept head names. Nothing but checkpoints is deleted here.
package checkpoint
