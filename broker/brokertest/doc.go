// Package brokertest runs a whole broker inside a test (SQLite, objects in a folder, free ports), or a
// cluster of them (Postgres, one folder of objects).
//
// Place in the house: for tests of broker's rooms. What must be killed, or needs Postgres and S3, runs as
// a process in integration instead.
package brokertest
