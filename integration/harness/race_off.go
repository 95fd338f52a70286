//go:build !race

package harness

// RaceDetector says whether this binary, and so the one under test, is built with -race.
const RaceDetector = false
