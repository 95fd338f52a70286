// Package retention plans what has expired and what may leave the local disk. It decides; hotlog
// deletes local files and tiering deletes objects.
//
// Place in the house: it imports record and catalog. It is pure: facts and now go in, a decision with
// its reason comes out. No clock, no I/O.
//
// Invariants: a plan never frees above the smaller of the two bounds of R5, never moves start past the
// high watermark or the stable offset, and an infinite setting (-1) never expires anything.
package retention
