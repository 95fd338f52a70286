package catalogtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var restoreStories = []story{
	{"H21 an empty catalog is written again, and each step may be repeated", restored},
	{"a catalog in use is not written over", func(w *World) {
		p := w.OnePartition()
		_, err := w.S.BeginRestore(w.Ctx, catalog.ClusterRow{ID: catalog.NewUUID(), Generation: 4}, 9)
		require.ErrorIs(w.T, err, catalog.ErrNotEmpty)
		_, err = w.S.RestoreSegments(w.Ctx, p.ID, []catalog.Segment{p.Segment(0, 10)})
		require.ErrorIs(w.T, err, catalog.ErrInvalid)
		require.ErrorIs(w.T, w.S.RestoreOffsets(w.Ctx, []catalog.CommittedOffset{{Group: "g", Partition: p.ID}}), catalog.ErrInvalid)
		is, err := w.S.Restoring(w.Ctx)
		require.NoError(w.T, err)
		require.False(w.T, is)
	}},
	{"a restore for another cluster is refused", func(w *World) {
		_, err := w.S.BeginRestore(w.Ctx, catalog.ClusterRow{ID: catalog.NewUUID(), Generation: 4}, 9)
		require.NoError(w.T, err)
		_, err = w.S.BeginRestore(w.Ctx, catalog.ClusterRow{ID: catalog.NewUUID(), Generation: 4}, 9)
		require.ErrorIs(w.T, err, catalog.ErrNotEmpty)
	}},
}

func restored(w *World) {
	id := catalog.NewUUID()
	topic := catalog.Topic{ID: catalog.NewUUID(), Name: "events", Configs: map[string]string{"retention.ms": "-1"}}
	p := &Partition{World: w, ID: catalog.PartitionID{Topic: topic.ID}}
	row := catalog.Partition{ID: p.ID, LeaderEpoch: 105, ISR: []catalog.Member{{Broker: 1, Incarnation: 77}}, Replicas: []catalog.BrokerID{1},
		Bounds: catalog.Bounds{Start: 15, Tiered: 999, TierBytes: 999}}
	a, b, c := p.Segment(10, 20), p.Segment(20, 30), p.Segment(30, 40)
	a.MaxTimestamp = 90_000
	commit := catalog.CommittedOffset{Group: "g", Partition: p.ID, Offset: 25, LeaderEpoch: -1, Metadata: "m", CommitTime: time.UnixMilli(5000)}
	for round := range 2 {
		got, err := w.S.BeginRestore(w.Ctx, catalog.ClusterRow{ID: id, Generation: int64(4 + round)}, 500)
		require.NoError(w.T, err)
		require.Equal(w.T, id, got.ID)
		require.EqualValues(w.T, 4, got.Generation, "a restore that goes on keeps its generation")
		is, err := w.S.Restoring(w.Ctx)
		require.NoError(w.T, err)
		require.True(w.T, is)
		require.NoError(w.T, w.S.RestoreBrokers(w.Ctx, []catalog.Broker{{ID: 1, Incarnation: 77}}))
		require.NoError(w.T, w.S.RestoreTopic(w.Ctx, topic, []catalog.Partition{row}))
		_, err = w.S.RestoreSegments(w.Ctx, p.ID, []catalog.Segment{a, b})
		require.NoError(w.T, err)
		bounds, err := w.S.RestoreSegments(w.Ctx, p.ID, []catalog.Segment{b, c})
		require.NoError(w.T, err)
		require.Equal(w.T, catalog.Bounds{Start: 15, Tiered: 40, TierBytes: 300}, bounds)
		require.NoError(w.T, w.S.RestoreOffsets(w.Ctx, []catalog.CommittedOffset{commit, {Group: "g", Partition: catalog.PartitionID{Topic: catalog.NewUUID()}}}))
	}
	_, err := w.S.RestoreSegments(w.Ctx, p.ID, []catalog.Segment{p.Segment(50, 60)})
	require.ErrorIs(w.T, err, catalog.ErrNotContiguous)
	require.NoError(w.T, w.S.EndRestore(w.Ctx))
	require.NoError(w.T, w.S.EndRestore(w.Ctx))

	require.Equal(w.T, "[10,20) [20,30) [30,40)", p.Ranges())
	seg, err := w.S.SegmentAtTime(w.Ctx, p.ID, 80_000)
	require.NoError(w.T, err)
	require.EqualValues(w.T, 10, seg.Base, "the running maximum is there")
	offsets, err := w.S.GroupOffsets(w.Ctx, "g")
	require.NoError(w.T, err)
	require.Len(w.T, offsets, 1)
	require.EqualValues(w.T, 25, offsets[0].Offset)
	have := p.Row()
	require.Equal(w.T, catalog.NoBroker, have.Leader)
	require.Greater(w.T, have.Version, catalog.Version(500))
	r, err := w.S.Register(w.Ctx, catalog.Registration{ID: 1, Keep: 77, Attempt: "a"})
	require.NoError(w.T, err)
	require.EqualValues(w.T, 77, r.Incarnation, "who has its disk is in sync as before")
	w.Inc[1] = r.Incarnation
	led := p.Elect(1, 1)
	require.Equal(w.T, record.Epoch(106), led.Guard.Epoch)
	led.Upload(40, 50)
}
