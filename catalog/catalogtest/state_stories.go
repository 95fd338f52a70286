package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var stateStories = []story{
	{"a pull from nothing is full, the next one brings what changed", func(w *World) {
		w.Register(1)
		a, b := w.Topic(2, 1), w.Topic(1, 1)
		all, err := w.S.Pull(w.Ctx, catalog.Position{})
		require.NoError(w.T, err)
		require.True(w.T, all.Full)
		require.Len(w.T, all.Topics, 2)
		require.Len(w.T, all.Partitions, 3)
		require.Len(w.T, all.Brokers, 1)
		require.NotZero(w.T, all.Position.Nonce)

		none, err := w.S.Pull(w.Ctx, all.Position)
		require.NoError(w.T, err)
		require.Equal(w.T, catalog.Changes{Position: all.Position}, none)

		w.Led(a, 1).Elect(1, 1)
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, b.ID))
		w.Register(2)
		w.GiveSlots(2, 5)
		some, err := w.S.Pull(w.Ctx, all.Position)
		require.NoError(w.T, err)
		require.False(w.T, some.Full)
		require.Empty(w.T, some.Topics)
		require.Equal(w.T, []catalog.TopicID{b.ID}, some.Deleted)
		require.Len(w.T, some.Partitions, 1)
		require.Equal(w.T, catalog.PartitionID{Topic: a.ID, Partition: 1}, some.Partitions[0].ID)
		require.Len(w.T, some.Brokers, 1)
		require.Equal(w.T, []catalog.SlotGuard{{Slot: 5, Broker: 2, Incarnation: w.Inc[2], Epoch: 1}}, some.Slots)
		require.Greater(w.T, some.Position.Version, all.Position.Version)
	}},
	{"H2 a catalog that does not hold the caller's pair has gone back", func(w *World) {
		w.Register(1)
		at := w.Position()
		for _, seen := range []catalog.Position{
			{Version: at.Version, Nonce: at.Nonce + 1}, {Version: at.Version + 1, Nonce: 1}, {Version: at.Version + 100, Nonce: at.Nonce},
		} {
			_, err := w.S.Pull(w.Ctx, seen)
			require.ErrorIs(w.T, err, catalog.ErrRewound)
		}
		_, err := w.S.Pull(w.Ctx, at)
		require.NoError(w.T, err)
	}},
	{"H39 the version of a row moves with its leadership, not with its bounds", func(w *World) {
		p := w.OnePartition()
		before := p.Row()
		w.WithoutCounter(func() {
			p.Upload(0, 10)
			_, _, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, 5)
			require.NoError(w.T, err)
		})
		require.Equal(w.T, before.Version, p.Row().Version)
		p.Elect(1, 1)
		require.Greater(w.T, p.Row().Version, before.Version)
	}},
	{"the bounds of many rows are read at once, unknown ones left out", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 10)
		unknown := catalog.PartitionID{Topic: catalog.NewUUID()}
		got, err := w.S.PartitionBounds(w.Ctx, []catalog.PartitionID{p.ID, unknown})
		require.NoError(w.T, err)
		require.Equal(w.T, map[catalog.PartitionID]catalog.Bounds{p.ID: {Start: 0, Tiered: 10, TierBytes: 100}}, got)
		got, err = w.S.PartitionBounds(w.Ctx, nil)
		require.NoError(w.T, err)
		require.Empty(w.T, got)
		_, err = w.S.Partition(w.Ctx, unknown)
		require.ErrorIs(w.T, err, catalog.ErrNotFound)
	}},
	{"a new leader's questions are answered at once: the rows, and what earlier uploads have left", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 10)
		ids := []catalog.PartitionID{p.ID, {Topic: catalog.NewUUID()}}
		got, err := w.S.Standings(w.Ctx, ids)
		require.NoError(w.T, err)
		require.Equal(w.T, map[catalog.PartitionID]catalog.Standing{p.ID: {Partition: p.Row()}}, got)
		p.Announce(p.Segment(10, 20))
		got, err = w.S.Standings(w.Ctx, ids)
		require.NoError(w.T, err)
		require.Equal(w.T, map[catalog.PartitionID]catalog.Standing{p.ID: {Partition: p.Row(), Left: true}}, got)
		got, err = w.S.Standings(w.Ctx, nil)
		require.NoError(w.T, err)
		require.Empty(w.T, got)
	}},
}

var electionStories = []story{
	{"an election raises the epoch and fences the leader of before (A3)", func(w *World) {
		w.Register(1, 2)
		p := w.Led(w.Topic(1, 1, 2), 0)
		s := p.Announce(p.Segment(0, 10))
		q := p.Elect(2, 1, 2)
		require.Equal(w.T, p.Guard.Epoch+1, q.Guard.Epoch)
		_, err := w.S.Publish(w.Ctx, p.Guard, s)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		require.ErrorIs(w.T, w.S.GiveUp(w.Ctx, p.Guard, s.Attempt), catalog.ErrFenced)
		q.Upload(0, 10)
		require.Equal(w.T, "[0,10)", q.Ranges())
		require.NoError(w.T, w.S.GiveUp(w.Ctx, q.Guard, s.Attempt))
		require.Equal(w.T, []string{s.Key}, w.Garbage())
	}},
	{"an entry whose row has moved is skipped, the others are not", func(w *World) {
		w.Register(1, 2)
		t := w.Topic(2, 1, 2)
		a, b := w.Led(t, 0), w.Led(t, 1)
		stale := a.Row()
		a.Elect(1, 1)
		changed, err := w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{
			{ID: b.ID, Leader: 2, ISR: w.members(1, 2), IfVersion: b.Row().Version},
			{ID: a.ID, Leader: 2, ISR: w.members(2), IfVersion: stale.Version},
		})
		require.NoError(w.T, err)
		require.Len(w.T, changed, 1)
		require.Equal(w.T, b.Row(), changed[0])
		require.Equal(w.T, catalog.BrokerID(1), a.Row().Leader)
	}},
	{"a member that is not the registered incarnation is not let in (H4, KIP-903)", func(w *World) {
		w.Register(1, 2)
		p := w.Led(w.Topic(1, 1, 2), 0)
		p = p.Elect(1, 1)
		old := w.members(2)
		require.NoError(w.T, w.S.Release(w.Ctx, 2, w.Inc[2], nil))
		w.Register(2)
		changed, err := w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{ID: p.ID, Leader: 1, ISR: append(w.members(1), old...), IfVersion: p.Row().Version}})
		require.NoError(w.T, err)
		require.Empty(w.T, changed)
		p.Elect(1, 1, 2)
	}},
	{"the leader can be taken away, the ISR cannot be emptied", func(w *World) {
		p := w.OnePartition()
		_, err := w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{ID: p.ID, Leader: catalog.NoBroker, IfVersion: p.Row().Version}})
		require.ErrorIs(w.T, err, catalog.ErrInvalid)
		_, err = w.S.Elect(w.Ctx, w.Controller(), []catalog.Election{{ID: p.ID, Leader: 2, ISR: w.members(1), IfVersion: p.Row().Version}})
		require.ErrorIs(w.T, err, catalog.ErrInvalid)
		q := p.Elect(catalog.NoBroker, 1)
		_, err = w.S.Publish(w.Ctx, q.Guard, q.Segment(0, 10))
		require.ErrorIs(w.T, err, catalog.ErrFenced, "nobody leads")
		changed, err := w.S.Elect(w.Ctx, w.Controller(), nil)
		require.NoError(w.T, err)
		require.Empty(w.T, changed)
	}},
}
