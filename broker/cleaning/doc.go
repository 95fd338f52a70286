// Package cleaning joins compaction with the object tier and with what a process knows of topics.
//
// Place in the house: a broker runs a [compaction.Worker] over the partitions that it leads, the compactor
// command one over all; both see objects through [Objects] and follow their partitions with [Follow].
//
// Locks: none.
//
// Invariants: a partition is followed within half a second of a publish, a swap, or a change of its
// settings; nothing is worked on whose topic does not use the object tier.
package cleaning
