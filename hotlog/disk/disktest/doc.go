// Package disktest is a file system for tests: the real one below a directory, of
// which it records every change in order, makes chosen ones fail, and builds what
// a power cut would leave.
//
// Place in the house: test-only, beside disk. Lock: FS.mu, over everything, real
// I/O included; it is a test's file system.
//
// What a power cut leaves: of every file the bytes of its last fsync, followed by
// a random part of what was written since, torn anywhere or read as zeros; of the
// names, those that a SyncDir covered and a random number of the later changes, in
// the order in which they were made, as a journal keeps them.
package disktest
