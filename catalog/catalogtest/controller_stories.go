package catalogtest

import (
	"sync"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var controllerStories = []story{
	{"the first who asks is the controller; its lease moves no counter", func(w *World) {
		w.Register(1, 2)
		w.WithoutCounter(func() {
			c := w.control(1)
			again, err := w.S.RenewController(w.Ctx, c)
			require.NoError(w.T, err)
			require.True(w.T, c.SameTerm(again))
			require.Equal(w.T, c.Lease+1, again.Lease)
			require.Equal(w.T, again, w.leases().Controller)
		})
		_, err := w.S.TakeController(w.Ctx, 2, w.Inc[2]+1, catalog.Controller{})
		require.ErrorIs(w.T, err, catalog.ErrFenced, "not registered")
	}},
	{"K7 another takes the role only from a lease that it has seen stand still; the first changes nothing then", k7},
	{"any number who ask at once: one is the controller of each term", func(w *World) {
		ids := []catalog.BrokerID{1, 2, 3, 4}
		w.Register(ids...)
		won := make([]bool, len(ids))
		var wg sync.WaitGroup
		for i, id := range ids {
			wg.Go(func() {
				_, err := w.S.TakeController(w.Ctx, id, w.Inc[id], catalog.Controller{})
				won[i] = err == nil
			})
		}
		wg.Wait()
		n := 0
		for _, w := range won {
			if w {
				n++
			}
		}
		require.Equal(w.T, 1, n)
		require.EqualValues(w.T, 1, w.leases().Controller.Epoch)
	}},
	{"a broker that is taken out leads nothing, is in no set and holds no slot, in one version", takeOut},
	{"H16 a broker whose lease has moved since it was seen is not taken out", func(w *World) {
		w.Register(1, 2)
		c := w.control(1)
		p := w.Led(w.Topic(1, 2, 1), 0)
		seen := w.lease(2)
		_, err := w.S.Renew(w.Ctx, 2, w.Inc[2])
		require.NoError(w.T, err)
		w.WithoutCounter(func() {
			gone, err := w.S.TakeOut(w.Ctx, c, []catalog.BrokerLease{seen}, refuseToDecide(w))
			require.NoError(w.T, err)
			require.Empty(w.T, gone)
		})
		require.Equal(w.T, catalog.BrokerID(2), p.Row().Leader)
	}},
	{"H5 nobody is left: the partition has no leader and its set stays", func(w *World) {
		w.Register(1, 2)
		c := w.control(1)
		p := w.Led(w.Topic(1, 2), 0)
		gone, err := w.S.TakeOut(w.Ctx, c, []catalog.BrokerLease{w.lease(2)}, func(catalog.Left) catalog.Given { return catalog.Given{} })
		require.NoError(w.T, err)
		require.Equal(w.T, []catalog.BrokerID{2}, gone)
		require.Equal(w.T, catalog.NoBroker, p.Row().Leader)
		require.Equal(w.T, w.members(2), p.Row().ISR)
		_, err = w.S.Renew(w.Ctx, 2, w.Inc[2])
		require.ErrorIs(w.T, err, catalog.ErrFenced)
	}},
	{"L3 a clean stop hands everything over at once", func(w *World) {
		w.Register(1, 2)
		c := w.control(1)
		p := w.Led(w.Topic(1, 1, 2), 0)
		_, err := w.S.AssignSlots(w.Ctx, c, []catalog.SlotMove{{Slot: 9, To: 1}})
		require.NoError(w.T, err)
		before := w.Position().Version
		require.NoError(w.T, w.S.Release(w.Ctx, 1, w.Inc[1], func(l catalog.Left) catalog.Given {
			require.Equal(w.T, []catalog.BrokerID{1}, l.Leaving)
			require.Equal(w.T, []bool{false, true}, []bool{l.Brokers[0].Live, l.Brokers[1].Live})
			return catalog.Given{
				Elections: []catalog.Election{{ID: p.ID, Leader: 2, ISR: w.members(2)}},
				Slots:     []catalog.SlotMove{{Slot: 9, To: 2, IfEpoch: l.Slots[9].Epoch}},
			}
		}))
		require.Equal(w.T, before+1, w.Position().Version)
		row := p.Row()
		require.Equal(w.T, catalog.BrokerID(2), row.Leader)
		require.Equal(w.T, p.Guard.Epoch+1, row.LeaderEpoch)
		require.Equal(w.T, w.members(2), row.ISR)
		require.Equal(w.T, []catalog.SlotGuard{{Slot: 9, Broker: 2, Incarnation: w.Inc[2], Epoch: 2}}, w.held())
		require.Equal(w.T, catalog.NoBroker, w.leases().Controller.Broker, "the role is free")
		w.control(2)
	}},
	{"a registration frees the slots of the id; the controller gives them anew", func(w *World) {
		w.Register(1)
		c := w.control(1)
		got, err := w.S.AssignSlots(w.Ctx, c, []catalog.SlotMove{{Slot: 3, To: 1}, {Slot: 4, To: 1, IfEpoch: 7}, {Slot: 5, To: 6}})
		require.NoError(w.T, err)
		require.Equal(w.T, []catalog.SlotGuard{{Slot: 3, Broker: 1, Incarnation: w.Inc[1], Epoch: 1}}, got, "another epoch, and nobody, are skipped")
		_, err = w.S.Register(w.Ctx, catalog.Registration{ID: 1, Keep: w.Inc[1]})
		require.NoError(w.T, err)
		require.Empty(w.T, w.held())
		_, err = w.S.AssignSlots(w.Ctx, c, []catalog.SlotMove{{Slot: 3, To: 1, IfEpoch: 2}})
		require.NoError(w.T, err, "a kept incarnation keeps its term")
	}},
}

// control makes a broker the controller.
func (w *World) control(id catalog.BrokerID) catalog.Controller {
	w.T.Helper()
	c, err := w.S.TakeController(w.Ctx, id, w.Inc[id], w.leases().Controller)
	require.NoError(w.T, err)
	return c
}

func (w *World) leases() catalog.Leases {
	w.T.Helper()
	ls, err := w.S.Leases(w.Ctx)
	require.NoError(w.T, err)
	return ls
}

// lease is a broker's lease as it is now.
func (w *World) lease(id catalog.BrokerID) catalog.BrokerLease {
	w.T.Helper()
	for _, b := range w.leases().Brokers {
		if b.ID == id {
			return b
		}
	}
	w.T.Fatalf("broker %d has no lease", id)
	return catalog.BrokerLease{}
}

// held is the slots that somebody holds.
func (w *World) held() []catalog.SlotGuard {
	w.T.Helper()
	gs, err := w.S.SlotHolders(w.Ctx)
	require.NoError(w.T, err)
	return gs
}

func refuseToDecide(w *World) catalog.Departure {
	return func(catalog.Left) catalog.Given {
		w.T.Error("nobody leaves, but somebody was asked what becomes of it")
		return catalog.Given{}
	}
}

func k7(w *World) {
	w.Register(1, 2)
	first := w.control(1)
	p := w.Led(w.Topic(1, 1, 2), 0)
	_, err := w.S.TakeController(w.Ctx, 2, w.Inc[2], catalog.Controller{})
	require.ErrorIs(w.T, err, catalog.ErrHeld)
	seen := w.leases().Controller
	_, err = w.S.RenewController(w.Ctx, first)
	require.NoError(w.T, err)
	_, err = w.S.TakeController(w.Ctx, 2, w.Inc[2], seen)
	require.ErrorIs(w.T, err, catalog.ErrHeld, "the lease moved after it was seen")
	second, err := w.S.TakeController(w.Ctx, 2, w.Inc[2], w.leases().Controller)
	require.NoError(w.T, err)
	require.Equal(w.T, first.Epoch+1, second.Epoch)

	w.WithoutCounter(func() {
		_, err = w.S.RenewController(w.Ctx, first)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		_, err = w.S.TakeOut(w.Ctx, first, []catalog.BrokerLease{w.lease(2)}, refuseToDecide(w))
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		_, err = w.S.AssignSlots(w.Ctx, first, []catalog.SlotMove{{Slot: 1, To: 1}})
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		row := p.Row()
		_, err = w.S.Elect(w.Ctx, first, []catalog.Election{{ID: p.ID, Leader: 2, ISR: row.ISR, IfVersion: row.Version}})
		require.ErrorIs(w.T, err, catalog.ErrFenced)
	})
}

func takeOut(w *World) {
	w.Register(1, 2, 3)
	c := w.control(1)
	t := w.Topic(2, 2, 1, 3)
	led, followed := w.Led(t, 0), w.Led(w.Topic(1, 1, 2, 3), 0)
	other := w.Led(w.Topic(1, 1, 3), 0)
	_, err := w.S.AssignSlots(w.Ctx, c, []catalog.SlotMove{{Slot: 1, To: 2}, {Slot: 2, To: 2}, {Slot: 3, To: 3}})
	require.NoError(w.T, err)
	before, otherRow := w.Position().Version, other.Row()
	version := w.topicVersion(followed.ID.Topic)

	gone, err := w.S.TakeOut(w.Ctx, c, []catalog.BrokerLease{w.lease(2)}, func(l catalog.Left) catalog.Given {
		require.Len(w.T, l.Partitions, 3)
		require.Len(w.T, l.Brokers, 3)
		require.False(w.T, l.Brokers[1].Live)
		return catalog.Given{
			Elections: []catalog.Election{
				{ID: led.ID, Leader: 1, ISR: w.members(1, 3)},
				{ID: followed.ID, Leader: 1, ISR: w.members(1, 3), ELR: w.members(2), IfTopic: version},
			},
			Slots: []catalog.SlotMove{{Slot: 1, To: 3, IfEpoch: 1}},
		}
	})
	require.NoError(w.T, err)
	require.Equal(w.T, []catalog.BrokerID{2}, gone)
	require.Equal(w.T, before+1, w.Position().Version)

	row := led.Row()
	require.Equal(w.T, catalog.BrokerID(1), row.Leader)
	require.Equal(w.T, led.Guard.Epoch+1, row.LeaderEpoch)
	row = followed.Row()
	require.Equal(w.T, followed.Guard.Epoch, row.LeaderEpoch, "the leader stays, and so does its epoch")
	require.Equal(w.T, w.members(1, 3), row.ISR)
	require.Equal(w.T, w.members(2), row.ELR)
	require.Equal(w.T, catalog.NoBroker, w.Led(t, 1).Row().Leader, "nobody was elected")
	require.Equal(w.T, otherRow, other.Row(), "not its partition")
	require.Equal(w.T, []catalog.SlotGuard{{Slot: 1, Broker: 3, Incarnation: w.Inc[3], Epoch: 2}, {Slot: 3, Broker: 3, Incarnation: w.Inc[3], Epoch: 1}}, w.held())
	require.False(w.T, w.lease(2).Live)
	_, err = w.S.Publish(w.Ctx, led.Guard, led.Segment(0, 10))
	require.ErrorIs(w.T, err, catalog.ErrFenced)

	changes, err := w.S.Pull(w.Ctx, catalog.Position{})
	require.NoError(w.T, err)
	require.Len(w.T, changes.Slots, catalog.Slots)
}
