// Package handler answers Kafka requests: one file per API key, named NN_api.go, whose header states
// its behaviour and versions, and one table (table.go) that names each API, its versions and its
// handler. The table is what ApiVersions answers and what docs/api.md is made from.
//
// Place in the house: a room of broker, between wire and partition, group, metadata and the catalog.
//
// Requests of one connection take effect in the order in which they came (R19): a handler runs inline
// on the connection's goroutine until its effect is done or queued, and only its wait moves to a
// goroutine of its own, through [Handlers.later], which Close waits for.
//
// Which Kafka error code an error becomes is decided in one place, errors.go.
// UNKNOWN_SERVER_ERROR means a bug, and is counted.
package handler
