package partition_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is appended is synced when flush.ms is over, at the leader and at a follower, also after the first time and where
// nothing else looks at the partition.
func TestFlushMsSyncsWhatWaits(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"flush.ms": "50"})
	for i := range 3 {
		w.nodes[1].write(values(i, i+1)...)
		for _, n := range w.nodes {
			w.until(func() bool { return n.part().Flushed() == n.end() && n.end() > 0 }, "broker %d has synced write %d", n.id, i)
		}
	}
}

func TestWithoutFlushMsNothingIsSyncedOnItsOwn(t *testing.T) {
	w := newWorld(t, 1)
	w.create(nil)
	w.nodes[1].write("v0")
	require.Zero(t, w.nodes[1].part().Flushed())
}
