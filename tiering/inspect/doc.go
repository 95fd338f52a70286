// Package inspect reads one object as it lies in the bucket and says what it is and what is wrong with
// it: its footer, its checksums, the catalog row that would name it.
//
// Place in the house: a room of tiering, used by the adoption of left uploads, by tiering/audit and by
// tiering/rebuild. It imports catalog for the row, tiering/object for the layout and tiering/objstore
// for the bucket; it never writes.
//
// Invariants: an object is read through the given store alone, in bounded steps; a fault of the object is
// told apart from a store that cannot be asked ([Damaged]).
package inspect
