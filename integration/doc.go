// Package integration is the black box: real clients against the built binary, stores that fail, processes that are
// killed, and a checker that compares what was acknowledged with what is there.
//
// Place in the house: tests only; harness starts brokers, checker judges them, s3proxy and pgproxy stand between a
// broker and its stores, rawclient speaks the protocol byte by byte, clients holds a program for each foreign client.
//
// Stories run side by side, each with brokers, ports, folders, a database and a bucket of its own (scripts/test.sh says how
// many at a time). Those without t.Parallel come first, one by one: they need the machine's capacity, or judge what a
// machine with much else to do cannot show.
//
// How long a proof runs is a variable, short by default: TIDEMARK_SOAK_KILLS (5), TIDEMARK_SOAK_OUTAGE (8s). `make
// soak` sets the long ones.
package integration
