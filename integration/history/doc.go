// Package history judges a cluster by what its clients saw: what producers sent and were told, what each consumer polled,
// and what a reader finds at the end. It names the anomalies as Jepsen's Kafka workload does.
//
//   - lost write: acknowledged at an offset, and not there at the end
//   - unseen: acknowledged, and some consumer that has come to the end did not get it
//   - duplicate: one value at two offsets
//   - inconsistent offset: one offset with two values, whoever saw them
//   - non-monotonic poll: a consumer gets an offset again or goes back without having been placed anew
//   - skipped poll: a consumer goes past an offset that holds a record
//   - disorder: two values of one producer and partition stand in another order than they were sent
//   - from nowhere: a value that nobody sent there
//   - refused: a producer gave a record up, though it was to be retried for ever
//
// Aborted reads join them with transactions.
//
// Place in the house: pure; integration/chaos feeds it. Nothing here is compacted, and start stays 0.
//
// Lock order: History.mu alone.
//
// Invariants: values are dense: a producer numbers what it sends from 0, over all partitions.
package history
