package partition_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/partition"
)

// A request's appends wake a reader once, when they are all done: until then he is not disturbed, though a look of his own
// would find them.
func TestReadersAreWokenOnceARequest(t *testing.T) {
	w := newWorld(t, 1)
	w.create(nil)
	p := w.nodes[1].part()
	w.until(func() bool { return p.LeaderEpoch() == w.row().LeaderEpoch }, "it leads")
	reader := partition.NewWaiter()
	p.Watch(reader)
	defer p.Unwatch(reader)
	arrived := partition.NewArrivals(2)
	for i := range int32(2) {
		done, err := p.Append(idempotent(7, i, "v"), partition.AcksAll, arrived)
		require.NoError(t, err)
		require.EqualValues(t, i, done.Base)
	}
	require.EqualValues(t, 2, w.nodes[1].hw())
	require.Empty(t, reader.C(), "woken amid the request")
	arrived.Announce()
	require.Len(t, reader.C(), 1)
	<-reader.C()
	arrived.Announce()
	require.Empty(t, reader.C(), "announced once")
}
