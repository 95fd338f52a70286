// Package archtest holds the house together: it checks the import table of the project and those rules of style that a
// machine can check, as tests that read the source tree with go/parser alone.
//
// Place in the house: imported by nobody. `go test ./internal/archtest` is the review of every new edge between folders:
// an edge that layout.txt does not name fails the test, so that it becomes a line that somebody reads.
//
// Invariants: the checks take an fs.FS and return sentences, so that each of them is tested on a tree of a few lines;
// nothing here builds, type-checks or runs the code that it reads.
package archtest
