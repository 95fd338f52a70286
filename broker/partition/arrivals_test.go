package partition_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/partition"
)

// A request's appends wake a reader once, when they are all done: until then he is not disturbed, though a look of his own
// would find them.
func TestReadersAreWokenOnceARequest(t *testing.T) {
	w := newWorld(t, 1)
	w.create(nil)
	p := w.nodes[1].part()
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

// What a replica's fetch proves counts at once, and whoever waits for it is woken when all of the fetch is noted: a reader
// and a produce request.
func TestAReplicasFetchWakesWhenAllOfItIsNoted(t *testing.T) {
	w := newWorld(t, 2)
	w.create(nil)
	w.nodes[2].kill()
	p, two := w.nodes[1].part(), w.nodes[2].member()
	done, err := p.Append(idempotent(7, 0, "v"), partition.AcksAll, partition.NewArrivals(1))
	require.NoError(t, err)
	reader, answers := partition.NewWaiter(), make(chan []error, 1)
	p.Watch(reader)
	defer p.Unwatch(reader)
	partition.Await(t.Context(), []partition.Ack{done.Ack}, time.Minute, func(errs []error) { answers <- errs })
	lifted := partition.NewArrivals(1)
	require.NoError(t, p.NoteReplica(partition.ReplicaFetch{Member: two, From: 1, LeaderEpoch: w.row().LeaderEpoch}, lifted))
	require.EqualValues(t, 1, w.nodes[1].hw())
	require.Empty(t, answers)
	require.Empty(t, reader.C())
	lifted.Announce()
	require.Equal(t, []error{nil}, <-answers)
	require.Len(t, reader.C(), 1)
}
