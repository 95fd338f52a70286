// Package chaos runs a cluster of three `tidemark serve` processes on loopback with a Postgres and a bucket, hurts it while
// clients work, and judges what they saw.
//
// Every way between two parties passes through a proxy of the test: clients to each broker, each broker to each other one
// (told apart by the client id of the replication connections), each broker to Postgres and to the bucket. Faults are
// SIGKILL, SIGSTOP, ways that are held, cut or slow, wiped disks, a Postgres that is killed, lost answers of COMMIT.
//
// Place in the house: black-box tests. The history checker is integration/history, processes are integration/harness.
//
// A Cluster and its nodes are used by the test's goroutine only; the workload runs beside it and touches only its own
// clients and the History. A broker that ends by itself is started again by tend, as a supervisor would: a fenced broker
// exits with code 3.
//
// Two clusters stand at a time; the tests without t.Parallel have the machine for themselves, since they allow no broker to
// fall behind.
//
// The kill scenarios end processes, not machines: what a killed broker wrote is in the page cache. One disk at most is wiped
// at a time, and only while all replicas are in sync: more is more than min.insync.replicas=2 promises to survive.
package chaos
