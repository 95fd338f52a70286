package main

import (
	"runtime/debug"

	"tidemark/broker/config"
)

// collectAt is GOGC below a memory limit: with room to spare the heap may treble before it is collected; near the limit
// Go collects as often as it must, whatever this says.
const collectAt = 200

// limitMemory tells the garbage collector what the process may use. A tenth is left for stacks, the runtime itself and
// SQLite. Without a limit GOGC and GOMEMLIMIT hold, as in any Go program.
func limitMemory(limit config.Bytes) {
	if limit == 0 {
		return
	}
	debug.SetMemoryLimit(int64(limit) / 10 * 9)
	debug.SetGCPercent(collectAt)
}
