// Package broker is one node: it builds all parts, runs them and ends them in order.
//
// Place in the house: it imports every folder but the drivers of the catalog and of the object store,
// which cmd chooses and gives in. Its rooms: config and topicconfig (settings), wire (framing), handler
// (one file per API), metadata (the cluster's image), partition (the two tiers of each partition), group
// (consumer groups), admin (HTTP).
//
// Start, in order: lock the data directory; learn the cluster and bind to it; bind the listeners;
// register and win the id (R13); open the tier; pull the state, elect what has no leader, open and lead
// the partitions; serve. The end runs backwards: stop serving, fail what waits, end the leaderships,
// flush and close the logs, give the registration back, mark the directory clean.
//
// Invariants: a fenced broker stops and does not register again ([ErrFenced]); the clean mark is written
// only after every log is closed without an error; a new incarnation is stored in the data directory
// only when every log has been found to agree with the tier (R18).
package broker
