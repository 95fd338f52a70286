package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var rewindStories = []story{
	{"H2 a position that is held after all marks nothing", func(w *World) {
		w.Register(1)
		stands, err := w.S.ReportRewound(w.Ctx, 1, catalog.Copy{Position: w.Position()})
		require.NoError(w.T, err)
		require.Equal(w.T, catalog.Fits, stands)
		require.False(w.T, w.leases().Rewound)
	}},
	{"H2 while commits are missing nothing is decided; then the highest epoch and version stand", h2},
	{"H2 a topic whose creation was lost is there again, one whose deletion was lost is named", func(w *World) {
		w.Register(1)
		kept, gone := w.Topic(1, 1), w.Topic(1, 1)
		c := w.future(10)
		made := catalog.Topic{ID: catalog.NewUUID(), Name: "made", Configs: map[string]string{"retention.ms": "5"}, Version: c.Position.Version}
		c.Topics = []catalog.Topic{kept, made}
		c.Partitions = append(c.Partitions[:1:1], catalog.Partition{
			ID: catalog.PartitionID{Topic: made.ID}, Leader: 1, LeaderEpoch: 3, ISR: w.members(1), Replicas: []catalog.BrokerID{1},
			Version: c.Position.Version, Bounds: catalog.Bounds{Start: 7},
		})
		w.report(2, c)
		unknown, err := w.S.Repair(w.Ctx, w.Controller())
		require.NoError(w.T, err)
		require.Len(w.T, unknown, 1)
		require.Equal(w.T, gone.Name, unknown[0].Name)
		all, err := w.S.Pull(w.Ctx, catalog.Position{})
		require.NoError(w.T, err)
		require.Len(w.T, all.Topics, 3)
		p := w.Led(catalog.Topic{ID: made.ID}, 0)
		require.Equal(w.T, record.Epoch(3), p.Row().LeaderEpoch)
		require.Equal(w.T, catalog.Bounds{Start: 7, Tiered: 7}, p.Row().Bounds)
		for _, t := range all.Topics {
			if t.ID == made.ID {
				require.Equal(w.T, made.Configs, t.Configs)
			}
		}
	}},
}

// future is a copy of what the catalog shows, as a broker would hold it that has seen n versions more.
func (w *World) future(n catalog.Version) catalog.Copy {
	w.T.Helper()
	ch, err := w.S.Pull(w.Ctx, catalog.Position{})
	require.NoError(w.T, err)
	return catalog.Copy{
		Position: catalog.Position{Version: ch.Position.Version + n, Nonce: 1},
		Topics:   ch.Topics, Partitions: ch.Partitions, Slots: ch.Slots,
	}
}

func (w *World) report(b catalog.BrokerID, c catalog.Copy) {
	w.T.Helper()
	stands, err := w.S.ReportRewound(w.Ctx, b, c)
	require.NoError(w.T, err)
	require.Equal(w.T, catalog.Waits, stands)
}

func h2(w *World) {
	w.Register(1, 2, 3)
	controller := w.control(1)
	t := w.Topic(1, 1, 2, 3)
	p := w.Led(t, 0)
	w.GiveSlots(1, 5)
	// What the lost commits did: broker 2 leads at epoch 4, then broker 3 left the set; slot 5 moved on.
	older, newest := w.future(3), w.future(9)
	older.Partitions[0].LeaderEpoch, older.Partitions[0].Leader, older.Partitions[0].Version = 4, 2, older.Position.Version
	newest.Partitions[0].LeaderEpoch, newest.Partitions[0].Leader, newest.Partitions[0].Version = 4, 2, newest.Position.Version
	newest.Partitions[0].ISR = w.members(1, 2)
	newest.Slots[5] = catalog.SlotGuard{Slot: 5, Broker: 2, Incarnation: w.Inc[2], Epoch: 8}
	_, err := w.S.Pull(w.Ctx, older.Position)
	require.ErrorIs(w.T, err, catalog.ErrRewound)
	w.report(3, newest)
	w.report(2, older)
	require.True(w.T, w.leases().Rewound)

	row := p.Row()
	_, err = w.S.Elect(w.Ctx, controller, []catalog.Election{{ID: p.ID, Leader: 2, ISR: row.ISR, IfVersion: row.Version}})
	require.ErrorIs(w.T, err, catalog.ErrRewound)
	_, err = w.S.AlterISR(w.Ctx, 1, w.Inc[1], []record.Epoch{row.LeaderEpoch}, []catalog.ISRChange{{ID: p.ID, IfVersion: row.Version, ISR: w.members(1)}})
	require.ErrorIs(w.T, err, catalog.ErrRewound)
	_, err = w.S.TakeOut(w.Ctx, controller, []catalog.BrokerLease{w.lease(2)}, refuseToDecide(w))
	require.ErrorIs(w.T, err, catalog.ErrRewound)
	_, _, err = w.S.MoveStart(w.Ctx, p.ID, p.Guard, 1)
	require.ErrorIs(w.T, err, catalog.ErrRewound)
	require.ErrorIs(w.T, w.S.DeleteTopic(w.Ctx, t.ID), catalog.ErrRewound)
	_, err = w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "n", Place: On(1, 1)})
	require.ErrorIs(w.T, err, catalog.ErrRewound)
	_, err = w.S.Renew(w.Ctx, 1, w.Inc[1])
	require.NoError(w.T, err, "leases go on")

	stale := controller
	stale.Epoch--
	_, err = w.S.Repair(w.Ctx, stale)
	require.ErrorIs(w.T, err, catalog.ErrFenced)
	unknown, err := w.S.Repair(w.Ctx, controller)
	require.NoError(w.T, err)
	require.Empty(w.T, unknown)
	require.False(w.T, w.leases().Rewound)
	w.WithoutCounter(func() {
		_, err = w.S.Repair(w.Ctx, controller)
		require.NoError(w.T, err, "there is no mark any more")
	})

	row = p.Row()
	require.Equal(w.T, catalog.NoBroker, row.Leader)
	require.Equal(w.T, record.Epoch(4), row.LeaderEpoch)
	require.Equal(w.T, w.members(1, 2), row.ISR)
	require.Greater(w.T, row.Version, newest.Position.Version)
	require.Equal(w.T, record.Epoch(5), p.Elect(2, 1, 2).Guard.Epoch, "no epoch is given twice")
	all, err := w.S.Pull(w.Ctx, catalog.Position{})
	require.NoError(w.T, err)
	require.Equal(w.T, catalog.SlotGuard{Slot: 5, Broker: catalog.NoBroker, Epoch: 9}, all.Slots[5])

	_, err = w.S.Pull(w.Ctx, newest.Position)
	require.ErrorIs(w.T, err, catalog.ErrRewound, "its pair is still not here")
	stands, err := w.S.ReportRewound(w.Ctx, 3, newest)
	require.NoError(w.T, err)
	require.Equal(w.T, catalog.Repaired, stands)
}
