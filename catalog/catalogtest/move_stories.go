package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var moveStories = []story{
	{"a partition moves: the target joins, and then the rest goes", func(w *World) {
		p := w.movable()
		row := p.move(4, 2)
		require.Equal(w.T, []catalog.BrokerID{4, 2, 1, 3}, row.Replicas)
		require.Equal(w.T, []catalog.BrokerID{4}, row.Adding)
		require.Equal(w.T, []catalog.BrokerID{1, 3}, row.Removing)
		require.Equal(w.T, p.Guard.Epoch, row.LeaderEpoch)
		row = p.alter(2, 1, 2, 3, 4)
		changed, err := w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{
			ID: p.ID, Leader: 4, ISR: w.members(4, 2), Replicas: []catalog.BrokerID{4, 2}, IfVersion: row.Version}})
		require.NoError(w.T, err)
		require.Len(w.T, changed, 1)
		row = p.Row()
		require.Equal(w.T, changed[0], row)
		require.Equal(w.T, []catalog.BrokerID{4, 2}, row.Replicas)
		require.Empty(w.T, row.Adding)
		require.Empty(w.T, row.Removing)
	}},
	{"a move is cancelled: what it was adding is gone at once", func(w *World) {
		p := w.movable()
		p.move(4, 2)
		p = p.Elect(4, 4, 1)
		row := p.cancel()
		require.Equal(w.T, []catalog.BrokerID{2, 1, 3}, row.Replicas)
		require.Equal(w.T, w.members(1), row.ISR)
		require.Equal(w.T, catalog.NoBroker, row.Leader, "broker 4 led it")
		require.Empty(w.T, row.Adding)
		errs, err := w.S.Move(w.Ctx, []catalog.Move{{ID: p.ID}})
		require.NoError(w.T, err)
		require.ErrorIs(w.T, errs[0], catalog.ErrNoMove)
	}},
	{"a move that is changed keeps the replicas of before it", func(w *World) {
		p := w.movable()
		w.Register(5)
		p.move(4, 2)
		row := p.move(5, 1)
		require.Equal(w.T, []catalog.BrokerID{5, 1, 2, 3}, row.Replicas)
		require.Equal(w.T, []catalog.BrokerID{5}, row.Adding)
		require.Equal(w.T, []catalog.BrokerID{2, 3}, row.Removing)
	}},
	{"each move is answered by itself", func(w *World) {
		p := w.movable()
		require.NoError(w.T, w.S.Release(w.Ctx, 4, w.Inc[4], nil))
		w.WithoutCounter(func() {
			errs, err := w.S.Move(w.Ctx, []catalog.Move{
				{ID: p.ID, Target: []catalog.BrokerID{1, 4}},
				{ID: catalog.PartitionID{Topic: catalog.NewUUID()}, Target: []catalog.BrokerID{1}},
			})
			require.NoError(w.T, err)
			require.ErrorIs(w.T, errs[0], catalog.ErrInvalid, "broker 4 is not live")
			require.ErrorIs(w.T, errs[1], catalog.ErrUnknownTopic)
			for _, target := range [][]catalog.BrokerID{{}, {1, 1}} {
				errs, err = w.S.Move(w.Ctx, []catalog.Move{{ID: p.ID, Target: target}})
				require.NoError(w.T, err)
				require.ErrorIs(w.T, errs[0], catalog.ErrInvalid)
			}
		})
	}},
}

// movable is a partition on brokers 1, 2 and 3, and a broker 4 beside it.
func (w *World) movable() *Partition {
	w.T.Helper()
	p := w.threeReplicas()
	w.Register(4)
	return p
}

func (p *Partition) move(target ...catalog.BrokerID) catalog.Partition {
	p.T.Helper()
	errs, err := p.S.Move(p.Ctx, []catalog.Move{{ID: p.ID, Target: target}})
	require.NoError(p.T, err)
	require.NoError(p.T, errs[0])
	return p.Row()
}

func (p *Partition) cancel() catalog.Partition {
	p.T.Helper()
	errs, err := p.S.Move(p.Ctx, []catalog.Move{{ID: p.ID}})
	require.NoError(p.T, err)
	require.NoError(p.T, errs[0])
	return p.Row()
}
