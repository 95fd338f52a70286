// Package harness runs the tidemark binary as a process, as its users do, and does to it what the world does: signals,
// lost folders, restarts, stores that fail.
//
// Place in the house: black-box tests only. It builds the binary, knows its flags, variables, HTTP and Kafka
// addresses, and no package of the broker but the shapes of its JSON (broker/admin).
//
// A Node belongs to one test: its ports and folders stay the same over Kill, Term and Start. When the test ends the
// harness asks the node for its metrics, stops it with SIGTERM and fails the test if the node panicked, raced, answered
// UNKNOWN_SERVER_ERROR or did not stop; the log of a failed test's nodes is printed. No process outlives the test
// process: each has a parent-death signal.
package harness
