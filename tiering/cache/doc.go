// Package cache keeps chunks of remote objects on local disk, and small parsed values in memory, so that cold reads ask
// the object store once for what many want.
//
// Cache owns every download: it runs under the cache's own deadline, a caller whose context ends only stops waiting, and
// whoever asks for the same chunk meanwhile waits for the same download. Space is found before a download begins; a
// chunk is pinned from the end of its download until its last Handle is released, and a chunk that was downloaded for
// somebody who has not come back yet is kept for a moment. Downloads are bounded in number and given out in turn over
// the owners (connections) that ask. Tails is the same for values in memory.
//
// The folder is expendable: chunks are checked whenever they are read, a damaged, torn or missing file is a miss, and
// removing all of it, while the process runs or between runs, costs downloads only. Files have names that are never
// used twice. A download stays in memory until others need the room: then what a reader has gone through is dropped, as
// most replays come once, and the rest is written to its file. If the disk takes no file, those who have the chunk keep
// it in memory.
//
// Place in the house: under tiering, which gives the download as a function; imports nothing of ours.
//
// Lock order: Cache.mu and Tails.mu are leaves; no I/O, callback or channel wait happens under them.
//
// Invariants: used = files of resident chunks, written or not yet + reservations of running downloads, and never exceeds
// Options.MaxBytes; memory = Options.MemoryBytes + one chunk a running download;
// a pinned chunk is never evicted; one download per key at a time; an entry that is in the map has one file.
package cache
