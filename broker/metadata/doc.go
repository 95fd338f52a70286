// Package metadata is what a broker knows of the cluster: an immutable [Image], made from the
// catalog's changes, and a [Follower] that pulls them by version (R12).
//
// Place in the house: a room of broker. handler reads images; partition is opened, led and closed by
// whoever listens to the follower. It imports catalog and broker/topicconfig.
//
// Invariants: an image never changes once it is published; a newer image has a higher version or the
// follower has seen a full pull. A deleted topic leaves the image only by a tombstone or a full pull.
package metadata
