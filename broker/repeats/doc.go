// Package repeats is a slog handler that keeps a lasting trouble from filling the log: what is said again and again is
// written when it begins, once a minute with a count while it lasts, and once when it is over.
//
// Place in the house: cmd/tidemark puts it between the log and the output of a broker; the packages that log know nothing of
// it. They say what they see as often as they see it.
//
// Invariants: lines below warn pass as they are; the first line of a trouble is never held back; each line that is held back
// is counted in a later one; memory is bounded by the number of messages in the code, whatever they are about.
package repeats
