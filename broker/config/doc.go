// Package config turns TIDEMARK_* variables into one Config and back into text: parsing, defaults, checks, and the page
// that `tidemark config` prints.
//
// Place in the house: cmd/tidemark calls Load (serve) or Dev (dev) once, before anything is opened; broker composes its
// parts' Options from the result. It reads no file and opens nothing.
//
// Invariants: every fault is reported at once, each with its variable, its value and a remedy; a variable that begins
// with TIDEMARK_ and that nobody knows is a fault; passwords and tokens never appear in a message or a log line; a field
// of Config is named in exactly one variable and documented in its tag, from which docs/config.md is generated.
package config
