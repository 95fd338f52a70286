package catalogtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var removalStories = []story{
	{"H30 start removes rows wholly below it and their bytes", func(w *World) {
		p := w.OnePartition()
		a, b := p.Upload(0, 10), p.Upload(10, 20)
		p.Upload(20, 30)
		got, more, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, 25)
		require.NoError(w.T, err)
		require.False(w.T, more)
		require.Equal(w.T, catalog.Bounds{Start: 25, Tiered: 30, TierBytes: 100}, got)
		require.Equal(w.T, "[20,30)", p.Ranges())
		require.ElementsMatch(w.T, []string{a.Key, b.Key}, w.Garbage())
	}},
	{"D5 D6 start never falls", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 20)
		for _, o := range []record.Offset{15, 3, 15, 0} {
			b, _, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, o)
			require.NoError(w.T, err)
			require.EqualValues(w.T, 15, b.Start)
		}
	}},
	{"H15 start beyond tiered takes tiered along, and a segment may begin below it", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 10)
		b, _, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, 15)
		require.NoError(w.T, err)
		require.Equal(w.T, catalog.Bounds{Start: 15, Tiered: 15}, b)
		_, err = w.S.Publish(w.Ctx, p.Guard, p.Announce(p.Segment(16, 20)))
		require.ErrorIs(w.T, err, catalog.ErrNotContiguous)
		_, err = w.S.Publish(w.Ctx, p.Guard, p.Announce(p.Segment(10, 15)))
		require.ErrorIs(w.T, err, catalog.ErrNotContiguous, "it would hold nothing at or above start")
		p.Upload(12, 18)
		require.EqualValues(w.T, 18, p.Row().Tiered)
		p.Upload(18, 20)
	}},
	{"more than a thousand rows go in steps (H33)", manyRemoved},
	{"R8 garbage is due after the grace, deleted twice and then gone", func(w *World) {
		p := w.OnePartition()
		s := p.Announce(p.Segment(0, 10))
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, s.Attempt))
		due := func(grace, again time.Duration) int {
			rows, err := w.S.DueGarbage(w.Ctx, grace, again, 10)
			require.NoError(w.T, err)
			return len(rows)
		}
		require.Equal(w.T, 0, due(time.Hour, 0))
		require.Equal(w.T, 1, due(0, time.Hour))
		is, err := w.S.GarbageIs(w.Ctx, s.Key)
		require.NoError(w.T, err)
		require.True(w.T, is)
		require.NoError(w.T, w.S.Deleted(w.Ctx, s.Key))
		require.Equal(w.T, 0, due(0, time.Hour), "the second DELETE is a day later")
		rows, err := w.S.DueGarbage(w.Ctx, time.Hour, 0, 10)
		require.NoError(w.T, err)
		require.Equal(w.T, 1, rows[0].Deletes)
		require.NoError(w.T, w.S.Deleted(w.Ctx, s.Key))
		require.Empty(w.T, w.Garbage())
		n, err := w.S.CountGarbage(w.Ctx)
		require.NoError(w.T, err)
		require.Zero(w.T, n)
	}},
	{"D16 two workers with one list, and a repeat, count one DELETE once", func(w *World) {
		p := w.OnePartition()
		s := p.Announce(p.Segment(0, 10))
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, s.Attempt))
		require.Len(w.T, w.Garbage(), 1)
		require.Len(w.T, w.Garbage(), 1, "listing twice")
		for range 3 {
			require.NoError(w.T, w.S.Deleted(w.Ctx, s.Key))
		}
		rows, err := w.S.DueGarbage(w.Ctx, 0, 0, 10)
		require.NoError(w.T, err)
		require.Len(w.T, rows, 1)
		require.Equal(w.T, 1, rows[0].Deletes)
		require.NoError(w.T, w.S.Deleted(w.Ctx, s.Key))
		require.NoError(w.T, w.S.Deleted(w.Ctx, s.Key))
		require.Empty(w.T, w.Garbage())
	}},
	{"what is live or announced is no garbage", func(w *World) {
		p := w.OnePartition()
		live, announced := p.Upload(0, 10), p.Announce(p.Segment(10, 20))
		for _, key := range []string{live.Key, announced.Key, "no such key"} {
			is, err := w.S.GarbageIs(w.Ctx, key)
			require.NoError(w.T, err)
			require.False(w.T, is)
		}
	}},
	{"start of an unknown partition", func(w *World) {
		w.Register(1)
		_, _, err := w.S.MoveStart(w.Ctx, catalog.PartitionID{Topic: catalog.NewUUID()}, catalog.Guard{Broker: 1, Incarnation: w.Inc[1]}, 5)
		require.ErrorIs(w.T, err, catalog.ErrUnknownTopic)
	}},
}

func manyRemoved(w *World) {
	p := w.OnePartition()
	const rows = 1010
	for o := range record.Offset(rows) {
		_, err := w.S.Publish(w.Ctx, p.Guard, p.Announce(p.Segment(o, o+1)))
		require.NoError(w.T, err)
	}
	b, more, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, rows-1)
	require.NoError(w.T, err)
	require.True(w.T, more)
	require.EqualValues(w.T, rows-1, b.Start, "start is there at once")
	require.EqualValues(w.T, 10*(rows-1000), b.TierBytes)
	b, more, err = w.S.MoveStart(w.Ctx, p.ID, p.Guard, rows-1)
	require.NoError(w.T, err)
	require.False(w.T, more)
	require.EqualValues(w.T, 10, b.TierBytes)
	n, err := w.S.CountGarbage(w.Ctx)
	require.NoError(w.T, err)
	require.EqualValues(w.T, rows-1, n)
}
