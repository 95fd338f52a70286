package partition_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/partition"
)

// H18: a leader's disk reaches the first mark while nothing of a large active segment has been sealed. Clients are refused
// before anything is appended, what is there is sealed early and reaches the object tier, and reads go on. A follower
// beyond its first mark takes what its leader has accepted; beyond the second it takes nothing and leaves the in-sync set,
// so that nobody waits for it; with room again it comes back by itself.
func TestH18_UnderPressureDataLeavesAndFollowersGoOn(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"min.insync.replicas": "1"})
	one, two := w.nodes[1], w.nodes[2]
	one.write(values(0, 5)...)
	w.settled()
	require.Zero(t, w.row().Tiered, "the segment is far from full")

	one.space.used.Store(920) // 80 MiB are left
	w.until(func() bool {
		return one.produce(partition.AcksAll, patience, batch("refused")).ErrorCode == kerr.KafkaStorageError.Code
	}, "clients are refused")
	end := one.end()
	require.Equal(t, kerr.KafkaStorageError.Code, one.produce(partition.AcksAll, patience, batch("refused")).ErrorCode)
	require.Equal(t, end, one.end(), "nothing is appended first")
	w.until(func() bool { return w.row().Tiered == end }, "what is there leaves for the tier")
	require.Len(t, one.consume(0), int(end))

	one.space.used.Store(0)
	two.space.used.Store(920)
	w.until(func() bool { return one.produce(partition.AcksAll, patience, batch("v")).ErrorCode == 0 }, "clients are taken again")
	w.until(two.set.Squeezed, "the follower knows of its disk")
	before := w.row().Version
	for range 20 {
		one.write("followed")
	}
	w.settled()
	require.Equal(t, before, w.row().Version, "the follower has stayed in the set")

	two.space.used.Store(970) // 30 MiB are left
	w.until(two.set.Full, "the follower knows of its disk")
	one.scribble("alone")
	one.takesOut(2)
	require.Less(t, two.end(), one.end())
	two.space.used.Store(0)
	w.until(func() bool { return len(w.row().ISR) == 2 }, "it is back")
	w.sameLogs()
}
