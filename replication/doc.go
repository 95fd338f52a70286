// Package replication decides who leads a partition, where its replicas stand, who is in sync, and where a
// follower's log has to be cut.
//
// Place in the house: it imports record and catalog; broker executes what it decides. What stands here
// is pure: no clock, no I/O, no goroutine. The fetcher below it (package fetcher) moves the bytes.
//
//	Elect, Place     who leads, where replicas stand; LogsDecide whose logs have to be asked before
//	Followers        a leader's view: how far each follower is, the in-sync set and a change of it that is
//	                 pending, what the high watermark may reach
//	Truncation       a follower's conversation with a new leader about where their logs part
//
// Invariants: a leader is a live broker with its registered incarnation; the in-sync set is never
// emptied; a leader from outside ISR and ELR is chosen only where the loss has been accepted (H5). The high
// watermark passes only what every member of the in-sync set has, of both sets while a change is pending, and
// does not move below min.insync.replicas (H6, H7).
package replication
