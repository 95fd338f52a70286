// Package catalogtest holds every [catalog.Store] to one contract: stories of each call, of what
// fences it, of its repetition after a COMMIT whose answer was lost, of races, and a random walk beside a
// slow twin in memory.
//
// Place in the house: test-only; the tests of catalog/postgres and catalog/sqlite run it. The stories
// see a store only through its interface.
//
// Invariant: a story uses ids of its own, so stories can share a store.
package catalogtest
