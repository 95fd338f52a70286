// Package rebuild writes the catalog again from the bucket: the newest checkpoint, and the objects that
// continue it (H21).
//
// Place in the house: a room of tiering, run by `tidemark tier rebuild` while no broker is. It reads the
// bucket and writes an empty catalog; in the bucket it changes the generation in cluster.json alone.
//
// What is decided how:
//
//	topics, configs, offsets      the checkpoint's; a deleted topic is never revived
//	rows                          the oldest state since the checkpoint that is in the bucket whole: its
//	                              rows, where their object is gone what replaced it, and what continues
//	                              them (route.go, ADR 0012)
//	topics that it does not know  from footers, if all their objects are newer than the checkpoint: the
//	                              highest (leader epoch, generation)
//	start                         the checkpoint's; never lower
//
// Without a checkpoint all of it comes from footers, and the topics keep everything until somebody sets
// their retention again.
//
// Invariants: nothing is written into a catalog that is in use; every step may be repeated, so a rebuild
// that was killed is begun again; the same bucket gives the same catalog; what could not be decided is
// said in the [Report].
package rebuild
