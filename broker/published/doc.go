// Package published is a broker's own record of the object tier's rows that it has published in the last day, kept in
// the data directory: what a catalog that has lost commits is given back (R1, H2, H3).
//
// Place in the house: a room of broker; tiering writes through it, the broker reads it at a start, at a rewind and after
// an outage of the catalog. It decides nothing: the catalog says which rows it lacks, and the partition's leader
// publishes them again.
//
// Files are published/<number>.rec, a new one for every life of the process, every [Options.FileBytes] and every
// [Options.FileAge]; only the newest is written to. Big-endian:
//
//	0  "TMPB"
//	4  uint16   version, 1
//	6  uint16   0
//	8  entries: uint32 length of the payload
//	            uint32 CRC-32C of the payload
//	            payload: int64 ms since 1970, then the row as JSON
//
// Invariants:
//   - Note has synced the row when it returns nil; one fsync serves all who wait at the same time.
//   - After a failed write or fsync its file is not written to again: the next Note begins another one (H28), and all
//     who waited are told, so that they note again.
//   - A file's entries are believed up to the first that is not whole; what follows is cut at the next start.
//
// Lock: Record.mu is a leaf and never held over I/O; `writing` gives the files to one caller at a time.
package published
