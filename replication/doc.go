// Package replication decides who leads a partition and where its replicas stand.
//
// Place in the house: it imports record and catalog; broker executes what it decides. What stands here
// is pure: no clock, no I/O, no goroutine. Followers, the in-sync set and leases of several brokers
// belong here too and are not built yet (docs/limits.md).
//
// Invariants: a leader is a live broker with its registered incarnation; the in-sync set is never
// emptied; a leader from outside ISR and ELR is chosen only where the loss has been accepted (H5).
package replication
