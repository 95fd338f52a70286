// Command bench measures Tidemark beside Apache Kafka: the same clients, the same disk, the same minute. It is not part of
// the tests, and nothing in it passes or fails by a time.
//
// Both brokers run as a user would run them, one node each, with their defaults; they stay up for the whole run, warm, and
// take turns: a row of the table is measured on the one, then on the other, in the other order the next time. All rows are
// measured once before any is measured again, so that what the machine does meanwhile falls on all alike. A table holds
// medians; its ratios are medians of the ratios of neighbouring runs.
//
// What is counted begins after a second of running in and ends before the client stops. CPU is the broker's process alone,
// over the counted time, from /proc. Before each run free memory is filled with page cache that nobody needs (memory.go).
//
// Settings are environment variables (settings.go); make bench-compare runs what fits into 45 minutes, make
// bench-compare-full the whole matrix. The result is docs/benchmarks.md with its plot.
//
// BENCH_ROWS=compaction measures nothing but the two log cleaners (compaction.go), into a section of the page; BENCH_STREAM names
// a stream for them.
//
// With BENCH_CLUSTER each of the two is a cluster of three brokers (cluster.go): all replicas of a topic are in sync, and CPU
// and memory are those of the three processes together. make bench-cluster does it with a Postgres and an S3 server of its own,
// in 12 minutes; the result is a section of the same page.
package main
