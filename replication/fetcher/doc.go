// Package fetcher copies the leaders' logs to this broker: for each broker that leads partitions of ours one
// goroutine and one connection, all its partitions in one incremental fetch session (KIP-227), Kafka's Fetch
// with this broker's incarnation in ReplicaState (KIP-903), long polls.
//
// Place in the house: below replication, whose Truncation it talks through with the leader. It knows logs only as
// [Replica], which broker fills, and opens the only connections from broker to broker. broker tells it with
// [Pool.Assign] what to follow.
//
// A partition goes through these phases; every new assignment (another leader or epoch) begins again:
//
//	begin     the log is empty or ends below start: it begins at `tiered` with the tier's state (H23)
//	diverging OffsetForLeaderEpoch until the common end is found, then the cut (KIP-101, KIP-279)
//	fetching  in the session; an offset that the leader has only in the tier goes back to begin,
//	          one above the leader's end to diverging
//
// A round looks at what is on the fetcher's agenda: partitions to which something has happened since the session was last
// told of them, and those whose pause is over. The others cost it nothing.
//
// Lock order: Pool.mu and fetcher.mu are leaves and never held over I/O. Everything else of a fetcher belongs to
// its goroutine.
//
// Invariants: a fetch is sent only for a log that was cut for the leader's epoch, and carries that epoch; a
// Replica is called by one goroutine at a time; memory is one answer per leader (R20); no wait between two
// attempts is longer than 250 ms.
package fetcher
