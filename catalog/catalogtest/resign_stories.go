package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var resignStories = []story{
	{"H28 who resigns leads nothing of it and is in no set of it; the rest stays", func(w *World) {
		w.Register(1, 2, 3)
		t := w.Topic(2, 1, 2, 3)
		p, other := w.Led(t, 0), w.Led(t, 1)
		before, rest := p.Row(), other.Row()
		require.NoError(w.T, w.resign(1, p.ID))
		row := p.Row()
		require.Equal(w.T, catalog.NoBroker, row.Leader)
		require.Equal(w.T, w.members(2, 3), row.ISR)
		require.Empty(w.T, row.ELR, "its log is not to be relied on")
		require.Equal(w.T, before.LeaderEpoch, row.LeaderEpoch)
		require.Greater(w.T, row.Version, before.Version)
		require.Equal(w.T, rest, other.Row())
		require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, p.Intent(p.Segment(0, 10))), catalog.ErrFenced)
		w.WithoutCounter(func() { require.NoError(w.T, w.resign(1, p.ID)) })

		elected := p.Elect(2, 2, 3)
		require.NoError(w.T, w.resign(3, p.ID), "a follower")
		row = p.Row()
		require.Equal(w.T, w.members(2), row.ISR)
		require.EqualValues(w.T, 2, row.Leader)
		require.Equal(w.T, elected.Guard.Epoch, row.LeaderEpoch)
	}},
	{"H5 H28 the last member of a set stays what it is", func(w *World) {
		p := w.OnePartition()
		before := p.Row()
		w.WithoutCounter(func() { require.NoError(w.T, w.resign(1, p.ID)) })
		require.Equal(w.T, before, p.Row())
	}},
	{"H28 a resignation by another incarnation, or while commits are missing, is refused", func(w *World) {
		w.Register(1, 2)
		p := w.Led(w.Topic(1, 1, 2), 0)
		before := p.Row()
		require.ErrorIs(w.T, w.S.Resign(w.Ctx, 1, w.Inc[1]+1, []catalog.PartitionID{p.ID}), catalog.ErrFenced)
		w.report(2, w.future(3))
		require.ErrorIs(w.T, w.resign(1, p.ID), catalog.ErrRewound)
		require.Equal(w.T, before, p.Row())
		require.NoError(w.T, w.S.Resign(w.Ctx, 1, w.Inc[1], nil))
	}},
}

func (w *World) resign(b catalog.BrokerID, ps ...catalog.PartitionID) error {
	return w.S.Resign(w.Ctx, b, w.Inc[b], ps)
}
