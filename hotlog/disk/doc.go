// Package disk is the port through which hotlog touches the file system, so that
// tests can record the order of operations (I1), make them fail (H28, H18) and cut
// the power after any of them.
//
// Place in the house: below hotlog; imports nothing of ours. Locks: none.
//
// Invariant: what WriteSealed wrote is either wholly there or, after any crash,
// as before (I2).
package disk
