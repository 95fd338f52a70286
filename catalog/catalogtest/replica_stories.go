package catalogtest

import (
	"strconv"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var replicaStories = []story{
	{"a leader shrinks and expands its in-sync set; the epoch stays", func(w *World) {
		p := w.threeReplicas()
		before := p.Row()
		row := p.alter(2, 1, 2)
		require.Equal(w.T, w.members(1, 2), row.ISR)
		require.Empty(w.T, row.ELR, "two of three are enough")
		require.Equal(w.T, before.LeaderEpoch, row.LeaderEpoch)
		require.Equal(w.T, p.Row(), row)
		require.Equal(w.T, w.members(1, 2, 3), p.alter(2, 1, 2, 3).ISR)
	}},
	{"H6 who leaves a set that gets too small is eligible until the set is large enough again", func(w *World) {
		p := w.threeReplicas()
		p.alter(2, 1, 2)
		row := p.alter(2, 1)
		require.Equal(w.T, w.members(2), row.ELR, "the member that left {1, 2}")
		require.Empty(w.T, p.alter(2, 1, 3).ELR, "HW moves again without broker 2 (model, finding 5)")
		require.Equal(w.T, w.members(3), p.alter(2, 1).ELR)
		require.Empty(w.T, p.alter(1, 1, 2).ELR)
		require.Empty(w.T, p.alter(1, 1).ELR, "min.insync.replicas is 1")
	}},
	{"a changed min.insync.replicas empties the eligible sets (KIP-966)", func(w *World) {
		p := w.threeReplicas()
		require.NotEmpty(w.T, p.alter(2, 1).ELR)
		one, other := "1", "x"
		before := p.Row()
		require.NoError(w.T, w.S.AlterConfigs(w.Ctx, p.ID.Topic, []catalog.ConfigChange{{Name: "segment.bytes", Value: &other}}, false))
		require.Equal(w.T, before, p.Row())
		require.NoError(w.T, w.S.AlterConfigs(w.Ctx, p.ID.Topic, []catalog.ConfigChange{{Name: "min.insync.replicas", Value: &one}}, false))
		row := p.Row()
		require.Empty(w.T, row.ELR)
		require.Equal(w.T, before.ISR, row.ISR)
		require.Greater(w.T, row.Version, before.Version)
	}},
	{"H6 nobody becomes eligible by a min.insync.replicas that has changed since it was read", eligibleByOldSettings},
	{"H6 an eligible set that is larger than the settings allow goes with the next change, also one to the same set", func(w *World) {
		p := w.threeReplicas()
		require.Equal(w.T, w.members(2, 3), p.alter(2, 1).ELR)
		row := p.alter(1, 1)
		require.Empty(w.T, row.ELR)
		require.Equal(w.T, w.members(1), row.ISR)
	}},
	{"H6 changes of min.insync.replicas race changes of the sets: nobody is eligible by the old one", raceSettings},
	{"E7 a change on an old version or by an old leader changes nothing and is told the row", func(w *World) {
		p := w.threeReplicas()
		stale := p.Row()
		p.alter(2, 1, 2)
		w.WithoutCounter(func() {
			require.Equal(w.T, p.Row(), p.tryAlter(1, stale.Version, 1, 3), "the version has moved")
			q := *p
			q.Guard.Epoch++
			require.Equal(w.T, p.Row(), q.tryAlter(1, p.Row().Version, 1, 3), "another epoch")
			require.Equal(w.T, p.Row(), p.tryAlter(2, p.Row().Version, 2), "not the leader")
			require.Equal(w.T, p.Row(), p.tryAlter(1, p.Row().Version, 1, 2), "nothing to change")
		})
	}},
	{"E6 a member that is not the registered incarnation, or not live, cannot join", func(w *World) {
		p := w.threeReplicas()
		p.alter(2, 1)
		old := w.members(2)[0]
		require.NoError(w.T, w.S.Release(w.Ctx, 2, w.Inc[2], nil))
		require.Equal(w.T, w.members(1), p.tryAlter(1, p.Row().Version, 1, 2).ISR, "not live")
		w.Register(2)
		row := p.Row()
		got, err := w.S.AlterISR(w.Ctx, 1, w.Inc[1], []record.Epoch{p.Guard.Epoch},
			[]catalog.ISRChange{{ID: p.ID, IfVersion: row.Version, ISR: append(w.members(1), old), MinISR: 2}})
		require.NoError(w.T, err)
		require.Equal(w.T, []catalog.Partition{row}, got)
		require.Equal(w.T, w.members(1, 2), p.alter(2, 1, 2).ISR)
	}},
	{"a set without its leader, or of strangers, is refused", func(w *World) {
		p := w.threeReplicas()
		w.Register(4)
		row := p.Row()
		require.Equal(w.T, row, p.tryAlter(1, row.Version, 1, 4), "no replica")
		for _, isr := range [][]catalog.Member{nil, w.members(2, 3)} {
			_, err := w.S.AlterISR(w.Ctx, 1, w.Inc[1], []record.Epoch{0}, []catalog.ISRChange{{ID: p.ID, IfVersion: row.Version, ISR: isr}})
			require.ErrorIs(w.T, err, catalog.ErrInvalid)
		}
		_, err := w.S.AlterISR(w.Ctx, 1, w.Inc[1], nil, []catalog.ISRChange{{ID: p.ID}})
		require.ErrorIs(w.T, err, catalog.ErrInvalid)
	}},
	{"H13 many changes are one version, and rows of deleted topics are left out", func(w *World) {
		w.Register(1, 2)
		t, gone := w.Topic(3, 1, 2), w.Topic(1, 1, 2)
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, gone.ID))
		before := w.Position().Version
		var cs []catalog.ISRChange
		var epochs []record.Epoch
		for n := range int32(3) {
			p := w.Led(t, n)
			cs = append(cs, catalog.ISRChange{ID: p.ID, IfVersion: p.Row().Version, ISR: w.members(1), MinISR: 1})
			epochs = append(epochs, p.Guard.Epoch)
		}
		cs = append(cs, catalog.ISRChange{ID: catalog.PartitionID{Topic: catalog.NewUUID()}, ISR: w.members(1)})
		rows, err := w.S.AlterISR(w.Ctx, 1, w.Inc[1], append(epochs, 0), cs)
		require.NoError(w.T, err)
		require.Len(w.T, rows, 3)
		for _, row := range rows {
			require.Equal(w.T, before+1, row.Version)
		}
		require.Equal(w.T, before+1, w.Position().Version)
	}},
	{"E7 two who race changes of one set end in what the row says", e7},
}

// topicVersion is the version of a topic's row.
func (w *World) topicVersion(id catalog.TopicID) catalog.Version {
	w.T.Helper()
	version, _ := w.settings(id)
	return version
}

// settings is a topic's min.insync.replicas, 0 if it is not set, and the version that it was read at.
func (w *World) settings(id catalog.TopicID) (version catalog.Version, minISR int) {
	ch, err := w.S.Pull(w.Ctx, catalog.Position{})
	if err != nil {
		w.T.Errorf("pull: %v", err)
	}
	for _, t := range ch.Topics {
		if t.ID == id {
			minISR, _ = strconv.Atoi(t.Configs["min.insync.replicas"])
			return t.Version, minISR
		}
	}
	return 0, 0
}

// setMinISR changes min.insync.replicas of a topic.
func (p *Partition) setMinISR(value string) error {
	return p.S.AlterConfigs(p.Ctx, p.ID.Topic, []catalog.ConfigChange{{Name: "min.insync.replicas", Value: &value}}, false)
}

// eligibleByOldSettings: whoever decides on sets read min.insync.replicas 2 when it was 1 already. By the new value HW moves
// with the leader alone, so who has left may lack what was acknowledged.
func eligibleByOldSettings(w *World) {
	p := w.threeReplicas()
	require.NoError(w.T, p.setMinISR("2"))
	old := w.topicVersion(p.ID.Topic)
	require.NoError(w.T, p.setMinISR("1"))

	row := p.Row()
	rows, err := w.S.AlterISR(w.Ctx, 1, w.Inc[1], []record.Epoch{p.Guard.Epoch},
		[]catalog.ISRChange{{ID: p.ID, IfVersion: row.Version, ISR: w.members(1), MinISR: 2, IfTopic: old}})
	require.NoError(w.T, err)
	require.Equal(w.T, w.members(1), rows[0].ISR, "the set is changed")
	require.Empty(w.T, rows[0].ELR)

	c := w.control(3)
	row = p.alter(1, 1, 2, 3)
	rows, err = w.S.Elect(w.Ctx, c, []catalog.Election{{ID: p.ID, Leader: 1, ISR: w.members(1, 3), ELR: w.members(2), IfVersion: row.Version, IfTopic: old}})
	require.NoError(w.T, err)
	require.Equal(w.T, w.members(1, 3), rows[0].ISR)
	require.Empty(w.T, rows[0].ELR)

	_, err = w.S.TakeOut(w.Ctx, c, []catalog.BrokerLease{w.lease(1)}, func(l catalog.Left) catalog.Given {
		return catalog.Given{Elections: []catalog.Election{{ID: p.ID, Leader: 3, ISR: w.members(3), ELR: w.members(1), IfTopic: old}}}
	})
	require.NoError(w.T, err)
	row = p.Row()
	require.Equal(w.T, catalog.BrokerID(3), row.Leader)
	require.Empty(w.T, row.ELR)
}

// raceSettings: a leader shrinks and expands its set by the settings that it read last, which may be old, while they
// change. When they say 1, nobody is eligible.
func raceSettings(w *World) {
	p := w.threeReplicas()
	require.NoError(w.T, p.setMinISR("2"))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		version, minISR := w.settings(p.ID.Topic)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if n%2 == 0 { // half of the changes are decided by what was read before
				version, minISR = w.settings(p.ID.Topic)
			}
			isr := w.members(1, 2, 3)
			if n%4 < 2 {
				isr = w.members(1)
			}
			_, err := w.S.AlterISR(w.Ctx, 1, w.Inc[1], []record.Epoch{p.Guard.Epoch},
				[]catalog.ISRChange{{ID: p.ID, IfVersion: p.Row().Version, ISR: isr, MinISR: minISR, IfTopic: version}})
			if err != nil {
				w.T.Errorf("alter: %v", err)
				return
			}
		}
	})
	for range 20 {
		if !assert.NoError(w.T, p.setMinISR("1")) {
			break
		}
		row, err := p.S.Partition(p.Ctx, p.ID)
		if !assert.NoError(w.T, err) || !assert.Empty(w.T, row.ELR, "min.insync.replicas is 1, and its leader has read 2") {
			break
		}
		if !assert.NoError(w.T, p.setMinISR("2")) {
			break
		}
	}
	close(stop)
	wg.Wait()
}

// threeReplicas is a partition on brokers 1, 2 and 3, led by 1.
func (w *World) threeReplicas() *Partition {
	w.T.Helper()
	w.Register(1, 2, 3)
	return w.Led(w.Topic(1, 1, 2, 3), 0)
}

// alter changes the in-sync set, which must succeed.
func (p *Partition) alter(minISR int, isr ...catalog.BrokerID) catalog.Partition {
	p.T.Helper()
	before := p.Row()
	rows, err := p.S.AlterISR(p.Ctx, p.Guard.Broker, p.Guard.Incarnation, []record.Epoch{p.Guard.Epoch},
		[]catalog.ISRChange{{ID: p.ID, IfVersion: before.Version, ISR: p.members(isr...), MinISR: minISR, IfTopic: p.topicVersion(p.ID.Topic)}})
	require.NoError(p.T, err)
	require.Len(p.T, rows, 1)
	require.Greater(p.T, rows[0].Version, before.Version)
	return rows[0]
}

// tryAlter asks for a change as broker by, and returns the row that the answer shows.
func (p *Partition) tryAlter(by catalog.BrokerID, at catalog.Version, isr ...catalog.BrokerID) catalog.Partition {
	p.T.Helper()
	rows, err := p.S.AlterISR(p.Ctx, by, p.Inc[by], []record.Epoch{p.Guard.Epoch},
		[]catalog.ISRChange{{ID: p.ID, IfVersion: at, ISR: p.members(isr...), MinISR: 2, IfTopic: p.topicVersion(p.ID.Topic)}})
	require.NoError(p.T, err)
	require.Len(p.T, rows, 1)
	return rows[0]
}

func e7(w *World) {
	p := w.threeReplicas()
	var wg sync.WaitGroup
	won := make([]int, 2)
	for racer, with := range []catalog.BrokerID{2, 3} {
		wg.Go(func() {
			row, err := p.S.Partition(p.Ctx, p.ID)
			for range 50 {
				if err != nil {
					w.T.Errorf("racer %d: %v", racer, err)
					return
				}
				want := w.members(1, with)
				if sameSet(row.ISR, want) {
					want = w.members(1, 2, 3)
				}
				var rows []catalog.Partition
				rows, err = p.S.AlterISR(p.Ctx, 1, p.Inc[1], []record.Epoch{p.Guard.Epoch},
					[]catalog.ISRChange{{ID: p.ID, IfVersion: row.Version, ISR: want, MinISR: 1}})
				if err == nil && sameSet(rows[0].ISR, want) {
					won[racer]++
				}
				if err == nil {
					row = rows[0]
				}
			}
		})
	}
	wg.Wait()
	require.Positive(w.T, won[0]+won[1])
	row := p.Row()
	require.Equal(w.T, row, p.tryAlter(1, row.Version, membersOf(row.ISR)...))
}

func sameSet(a, b []catalog.Member) bool {
	in := map[catalog.Member]bool{}
	for _, m := range a {
		in[m] = true
	}
	for _, m := range b {
		if !in[m] {
			return false
		}
	}
	return len(a) == len(b)
}

func membersOf(ms []catalog.Member) []catalog.BrokerID {
	var ids []catalog.BrokerID
	for _, m := range ms {
		ids = append(ids, m.Broker)
	}
	return ids
}
