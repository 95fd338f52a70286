// Package group coordinates classic consumer groups and keeps what they have
// committed.
//
// Place in the house: the handlers of JoinGroup, SyncGroup, Heartbeat,
// LeaveGroup, DescribeGroups, ListGroups, DeleteGroups, OffsetCommit,
// OffsetFetch and OffsetDelete turn their requests into this package's structs
// and call the Coordinator, which returns at once; a call that has to wait
// takes a function that is called once with the answer. broker fills the
// ports: Offsets by the catalog, Topics by the metadata, Guard by the
// coordinator slots that this broker holds.
//
// Group is the pure core: one group's members, generations and timers as a
// state machine that takes values and the monotonic time and returns the
// answers that have become due. It follows Kafka's classic protocol up to
// JoinGroup v9: KIP-345 (static members), KIP-394 (member ids first), KIP-559
// (protocol checks), KIP-814 (skipped assignment). testdata/*.txt are
// conversations with it, state by state. Coordinator owns all groups, one lock
// each, one timer goroutine, the cache of committed offsets and the batcher
// that writes them.
//
// Members live in memory only. After a restart they are told
// UNKNOWN_MEMBER_ID and join anew; the generation begins at 1 again. That is
// harmless, because every check looks at the member id first and ids are
// random: an old generation number is never compared with a new one.
//
// Topics are known by id. A commit by name is refused with
// REBALANCE_IN_PROGRESS, and the group rebalances, when the name now stands
// for another topic than when this generation first used it (G9). A commit by
// id to a topic that is gone is UNKNOWN_TOPIC_ID.
//
// Invariants:
//   - calls of one connection take effect in the order of the calls: a commit
//     is checked and queued before CommitOffsets returns (R19, H12), and the
//     last value of a key within a batch wins;
//   - OK for a commit means that a row is durable; after an unclear outcome the
//     group's cache is read again before anything is answered from it (G4);
//   - OffsetFetch says -1 only when the whole group was read and has no such
//     row; until then it is COORDINATOR_LOAD_IN_PROGRESS (G4, G11);
//   - sessions and other timers run on the monotonic clock (R13, L5); wall time
//     only expires offsets of groups without members;
//   - while the catalog is away members stay and heartbeats are answered;
//     commits fail with COORDINATOR_NOT_AVAILABLE.
//
// Lock order: Coordinator.mu, entry.mu, then batcher.mu or timers.mu. Neither
// I/O nor an answer function is called under any of them.
package group
