// Package pace slows background work down while producers are at work and the machine is late: what a replay or a
// compaction takes of the processor is not what producers should wait for.
//
// Place in the house: the broker makes one [Traffic] and a [Pace] for each kind of work. The produce handler tells the
// traffic, cold answers and compaction ask their pace. It imports nothing of ours.
//
// Lock order: Pace.mu is a leaf and is not held while a step waits.
//
// Invariants: without producers nothing waits; with them no pace falls below its floor.
package pace
