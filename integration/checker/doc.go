// Package checker judges a broker by what it acknowledged.
//
// A Log is a model of the acknowledged log: what was sent, and which of it was acknowledged at which offset. Verify
// reads a partition from its start and compares; Agree compares the bucket with the catalog. Both say what is wrong
// in sentences and decide nothing else.
//
// Place in the house: black-box tests; it sees a broker only through a Kafka client and its HTTP API.
//
// Invariants that it holds a broker to: an acknowledged record is readable at its offset, unchanged, until start passes
// it; offsets rise without a gap (nothing here is compacted or transactional); no value is there twice; nothing is
// there that nobody sent; the ranges of a partition's objects are contiguous from start to tiered; after the grace the
// bucket holds the keys that the catalog names and no others.
package checker
