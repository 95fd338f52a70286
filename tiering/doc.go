// Package tiering moves sealed segments of led partitions into the object store, reads them back, and
// deletes objects that the catalog calls garbage. Nobody else touches objects.
//
// Place in the house: it imports record, catalog and its own sub-packages: object (the layout of one
// remote segment), objstore (the bucket), cache (chunks on disk, tails in memory), inspect (one object as
// it lies in the bucket). Beside it, and not known to it, stand what looks at the bucket as a whole:
// checkpoint (copies of the catalog), audit (verify, scrub, strays), rebuild. The broker joins it with
// hotlog through [Source]. It never decides what expires: retention does, through the catalog.
//
// One [Tier] serves a broker. Its five jobs, each in files of its own:
//
//	upload     schedule.go upload.go leftover.go verify.go   intent, PUT, read back, publish
//	cold read  read.go job.go row.go chunk.go readahead.go    row, tail, chunk; whole verified batches
//	questions  when.go state.go                               offsets by time, epochs, producer state
//	rewriting  input.go batches.go rewrite.go                 objects as a compaction reads and replaces them
//	removal    gc.go                                          DELETE of what garbage rows name
//
// Lock order: each lock stands alone; none is held while another is taken, and none over I/O.
//
// Invariants:
//   - The catalog row is the only truth (R1). Nothing here lists the bucket.
//   - Per partition one upload at a time, always at `tiered` (A1); a failure is retried there and
//     nothing moves past it. Only the catalog's `start` moves it elsewhere (A2).
//   - An attempt's key is used for one PUT sequence and never again (R3). Its fate is decided by
//     whoever deletes its intent row (R9).
//   - A reader gets whole batches whose CRC was checked, beginning with the first whose last offset
//     reaches what it asked for, or an error; never data from beyond a hole (R16, B4).
//   - Every remote call has a deadline (R14), and every wait is bounded by configuration (R20).
package tiering
