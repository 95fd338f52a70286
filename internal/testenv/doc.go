// Package testenv gives tests a real Postgres and a real S3 server, free ports, and a place for what a log prints (Lines).
//
// Postgres and S3 give a fresh database and a fresh bucket on servers shared by the test process; StartPostgres and
// StartS3 give a server of the test's own that it may stop, kill and start again on the same port. TEST_PG_DSN and
// TEST_S3_ENDPOINT (with TEST_S3_ACCESS_KEY and TEST_S3_SECRET_KEY) name servers that already run; without them the
// package starts its own: the postgres of the machine, and versitygw from $TIDEMARK_TOOLS, the user's cache folder
// (tools/install.sh puts it there) or PATH. What cannot be found fails the test with a sentence that says what to
// install; nothing is skipped.
//
// Place in the house: tests of every package may import it; it imports none of ours.
//
// Invariant: no server outlives the test process. Each runs under a small shell that waits for the end of a pipe whose
// other end only the test process holds, so a killed test takes its servers and their folders with it.
package testenv
