// Package sqlite is the catalog of a single broker: catalog/relational's transactions on one SQLite
// file, in pure Go.
//
// Place in the house: it implements relational.DB on database/sql; cmd and broker open it, nobody
// else knows it.
//
// The file is in WAL mode with synchronous=FULL, so a COMMIT that was answered outlives a power cut
// (H2, H3). One connection writes, BEGIN IMMEDIATE to COMMIT, so writes exclude each other and need
// no locking clauses; a few others read snapshots beside it. A lock file keeps other processes out
// (P14).
//
// Invariant: whoever holds the lock file is the only process with the database open.
package sqlite
