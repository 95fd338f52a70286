package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var brokerStories = []story{
	{"a new broker gets a random incarnation and is listed", func(w *World) {
		w.Register(1, 2)
		require.Positive(w.T, w.Inc[1])
		require.NotEqual(w.T, w.Inc[1], w.Inc[2])
		list, err := w.S.Brokers(w.Ctx)
		require.NoError(w.T, err)
		require.Len(w.T, list, 2)
		require.Equal(w.T, "rack-1", list[0].Rack)
		require.Equal(w.T, []catalog.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9093}}, list[0].Listeners)
		require.True(w.T, list[0].Live)
		require.Equal(w.T, w.Inc[1], list[0].Incarnation)
	}},
	{"a lease is a number that rises, and does not move the counter (H13)", func(w *World) {
		w.Register(1)
		w.WithoutCounter(func() {
			first, err := w.S.Renew(w.Ctx, 1, w.Inc[1])
			require.NoError(w.T, err)
			second, err := w.S.Renew(w.Ctx, 1, w.Inc[1])
			require.NoError(w.T, err)
			require.Equal(w.T, first+1, second)
		})
		_, err := w.S.Renew(w.Ctx, 1, w.Inc[1]+1)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		_, err = w.S.Renew(w.Ctx, 7, 1)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
	}},
	{"H27 an id that another holds is refused until its lease was seen to stand still", h27},
	{"H4 a kept incarnation stays in the ISR but leads no more", h4Kept},
	{"H4 a new incarnation leaves every ISR and ELR", h4New},
	{"H5 the last member of an ISR stays as who it was", h5},
	{"K5 a registration that is repeated is answered as the first", func(w *World) {
		r := registration(3)
		first, err := w.S.Register(w.Ctx, r)
		require.NoError(w.T, err)
		again, err := w.S.Register(w.Ctx, r)
		require.NoError(w.T, err)
		require.Equal(w.T, first.Incarnation, again.Incarnation)
	}},
	{"a release ends leaderships and the lease, once", func(w *World) {
		p := w.OnePartition()
		require.ErrorIs(w.T, w.S.Release(w.Ctx, 1, w.Inc[1]+1, nil), catalog.ErrFenced)
		require.NoError(w.T, w.S.Release(w.Ctx, 1, w.Inc[1], nil))
		w.WithoutCounter(func() { require.NoError(w.T, w.S.Release(w.Ctx, 1, w.Inc[1], nil)) })
		row := p.Row()
		require.Equal(w.T, catalog.NoBroker, row.Leader)
		require.Equal(w.T, w.members(1), row.ISR)
		_, err := w.S.Renew(w.Ctx, 1, w.Inc[1])
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		kept, err := w.S.Register(w.Ctx, catalog.Registration{ID: 1, Keep: w.Inc[1]})
		require.NoError(w.T, err)
		require.Equal(w.T, w.Inc[1], kept.Incarnation)
	}},
	{"an id that was released is free for another", func(w *World) {
		w.Register(1)
		old := w.Inc[1]
		require.NoError(w.T, w.S.Release(w.Ctx, 1, old, nil))
		w.Register(1)
		require.NotEqual(w.T, old, w.Inc[1])
	}},
}

func h27(w *World) {
	w.Register(1)
	_, err := w.S.Register(w.Ctx, registration(1))
	require.ErrorIs(w.T, err, catalog.ErrHeld)

	list, err := w.S.Brokers(w.Ctx)
	require.NoError(w.T, err)
	seen := catalog.SeenLease{Incarnation: list[0].Incarnation, Lease: list[0].Lease}
	_, err = w.S.Renew(w.Ctx, 1, w.Inc[1])
	require.NoError(w.T, err)
	r := registration(1)
	r.Seen = seen
	_, err = w.S.Register(w.Ctx, r)
	require.ErrorIs(w.T, err, catalog.ErrHeld, "the lease moved after it was seen")

	r.Seen.Lease++
	got, err := w.S.Register(w.Ctx, r)
	require.NoError(w.T, err)
	require.NotEqual(w.T, w.Inc[1], got.Incarnation)
	_, err = w.S.Renew(w.Ctx, 1, w.Inc[1])
	require.ErrorIs(w.T, err, catalog.ErrFenced, "the one that was replaced")
}

func h4Kept(w *World) {
	w.Register(1, 2)
	p := w.Led(w.Topic(1, 1, 2), 0)
	before := p.Row()
	got, err := w.S.Register(w.Ctx, catalog.Registration{ID: 1, Keep: w.Inc[1]})
	require.NoError(w.T, err)
	require.Equal(w.T, w.Inc[1], got.Incarnation)
	row := p.Row()
	require.Equal(w.T, catalog.NoBroker, row.Leader)
	require.Equal(w.T, w.members(1, 2), row.ISR)
	require.Greater(w.T, row.Version, before.Version)
	_, err = w.S.Publish(w.Ctx, p.Guard, p.Segment(0, 10))
	require.ErrorIs(w.T, err, catalog.ErrFenced, "the leadership of before")
	require.Equal(w.T, before.LeaderEpoch+1, p.Elect(1, 1, 2).Guard.Epoch)
}

func h4New(w *World) {
	w.Register(1, 2, 3)
	p := w.Led(w.Topic(1, 1, 2, 3), 0)
	row := p.Row()
	_, err := w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{ID: p.ID, Leader: 2, ISR: w.members(1, 2), ELR: w.members(3), IfVersion: row.Version, IfTopic: w.topicVersion(p.ID.Topic)}})
	require.NoError(w.T, err)
	for _, id := range []catalog.BrokerID{1, 3} {
		require.NoError(w.T, w.S.Release(w.Ctx, id, w.Inc[id], nil))
		w.Register(id)
	}
	row = p.Row()
	require.Equal(w.T, w.members(2), row.ISR)
	require.Empty(w.T, row.ELR)
	require.Equal(w.T, catalog.BrokerID(2), row.Leader, "who leads is not touched by others")
}

func h5(w *World) {
	p := w.OnePartition()
	old := w.members(1)
	require.NoError(w.T, w.S.Release(w.Ctx, 1, w.Inc[1], nil))
	w.Register(1)
	row := p.Row()
	require.Equal(w.T, old, row.ISR)
	require.Equal(w.T, catalog.NoBroker, row.Leader)

	// The stale member cannot lead; the new incarnation can, by an unclean election.
	changed, err := w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{ID: p.ID, Leader: 1, ISR: old, IfVersion: row.Version}})
	require.NoError(w.T, err)
	require.Empty(w.T, changed)
	require.Equal(w.T, w.Inc[1], p.Elect(1, 1).Guard.Incarnation)
}
