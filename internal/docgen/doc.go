// Command docgen writes the generated pages of docs/: `go run ./internal/docgen`. With -check it writes nothing and fails
// if a page is not what it would write.
//
// Place in the house: run by people after a change of a variable, config, metric or API version, and by CI with -check.
// Each package that owns a table writes its own page; this command only knows which page comes from whom.
//
// Invariant: a page depends on nothing but the code, so that its freshness can be tested.
package main
