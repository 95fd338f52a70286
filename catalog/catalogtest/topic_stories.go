package catalogtest

import (
	"errors"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var topicStories = []story{
	{"a new topic is led by its first live replica and its ISR is the live ones", func(w *World) {
		w.Register(1, 2, 3)
		require.NoError(w.T, w.S.Release(w.Ctx, 1, w.Inc[1], nil))
		live := map[catalog.BrokerID]bool{}
		topic, err := w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "a", Configs: map[string]string{"retention.ms": "-1"},
			Place: func(bs []catalog.Broker) ([][]catalog.BrokerID, error) {
				for _, b := range bs {
					live[b.ID] = b.Live
				}
				return [][]catalog.BrokerID{{1, 2, 3}, {3, 1, 2}}, nil
			}})
		require.NoError(w.T, err)
		require.Equal(w.T, map[catalog.BrokerID]bool{1: false, 2: true, 3: true}, live)
		first, second := w.Led(topic, 0).Row(), w.Led(topic, 1).Row()
		require.Equal(w.T, catalog.BrokerID(2), first.Leader)
		require.Equal(w.T, w.members(2, 3), first.ISR)
		require.Equal(w.T, []catalog.BrokerID{1, 2, 3}, first.Replicas)
		require.EqualValues(w.T, 0, first.LeaderEpoch)
		require.Equal(w.T, catalog.BrokerID(3), second.Leader)
		require.Equal(w.T, topic.Version, first.Version)
	}},
	{"a broker that leaves the cluster gets no new replicas until it stays", func(w *World) {
		w.Register(1, 2)
		require.ErrorIs(w.T, w.S.SetLeaving(w.Ctx, 7, true), catalog.ErrNotFound)
		before := w.Position().Version
		require.NoError(w.T, w.S.SetLeaving(w.Ctx, 2, true))
		require.Equal(w.T, before+1, w.Position().Version)
		w.WithoutCounter(func() { require.NoError(w.T, w.S.SetLeaving(w.Ctx, 2, true)) })
		require.NoError(w.T, w.S.Release(w.Ctx, 2, w.Inc[2], nil))
		w.Register(2) // a restart changes nothing about it
		given := func() (ids []catalog.BrokerID) {
			topic := catalog.NewTopic{ID: catalog.NewUUID(), Name: catalog.NewUUID().Hex(), Place: func(bs []catalog.Broker) ([][]catalog.BrokerID, error) {
				ids = nil
				for _, b := range bs {
					ids = append(ids, b.ID)
				}
				return [][]catalog.BrokerID{{1}}, nil
			}}
			_, err := w.S.CreateTopic(w.Ctx, topic)
			require.NoError(w.T, err)
			errs, err := w.S.Move(w.Ctx, []catalog.Move{{ID: catalog.PartitionID{Topic: topic.ID}, Target: []catalog.BrokerID{1, 2}}})
			require.NoError(w.T, err)
			require.Equal(w.T, len(ids) == 1, errs[0] != nil, "nor is anything moved to it: %v", errs[0])
			return ids
		}
		require.Equal(w.T, []catalog.BrokerID{1}, given())
		all, err := w.S.Brokers(w.Ctx)
		require.NoError(w.T, err)
		require.True(w.T, all[1].Leaving)
		require.NoError(w.T, w.S.SetLeaving(w.Ctx, 2, false))
		require.Equal(w.T, []catalog.BrokerID{1, 2}, given())
	}},
	{"an error of the placement is returned as it is, and nothing is made", func(w *World) {
		w.Register(1)
		no := errors.New("not enough racks")
		_, err := w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "a", Place: func([]catalog.Broker) ([][]catalog.BrokerID, error) { return nil, no }})
		require.Equal(w.T, no, err)
		_, err = w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: "a", Place: On(1, 7)})
		require.ErrorIs(w.T, err, catalog.ErrInvalid)
		ch, err := w.S.Pull(w.Ctx, catalog.Position{})
		require.NoError(w.T, err)
		require.Empty(w.T, ch.Topics)
	}},
	{"K5 creating the same id and name again succeeds with what is there", func(w *World) {
		w.Register(1)
		n := catalog.NewTopic{ID: catalog.NewUUID(), Name: "a", Configs: map[string]string{"x": "1"}, Place: On(2, 1)}
		first, err := w.S.CreateTopic(w.Ctx, n)
		require.NoError(w.T, err)
		w.WithoutCounter(func() {
			again, err := w.S.CreateTopic(w.Ctx, n)
			require.NoError(w.T, err)
			require.Equal(w.T, first, again)
		})
		other := catalog.NewTopic{ID: catalog.NewUUID(), Name: "a", Place: On(1, 1)}
		_, err = w.S.CreateTopic(w.Ctx, other)
		require.ErrorIs(w.T, err, catalog.ErrTopicExists)
	}},
	{"D18 a topic that is made again under its name is another topic", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 10)
		ch, err := w.S.Pull(w.Ctx, catalog.Position{})
		require.NoError(w.T, err)
		name := ch.Topics[0].Name
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic))
		fresh, err := w.S.CreateTopic(w.Ctx, catalog.NewTopic{ID: catalog.NewUUID(), Name: name, Place: On(1, 1)})
		require.NoError(w.T, err)
		q := w.Led(fresh, 0)
		require.Zero(w.T, q.Row().Tiered)
		_, err = w.S.SegmentAt(w.Ctx, q.ID, 0)
		require.ErrorIs(w.T, err, catalog.ErrNotFound)
	}},
	{"deleting again succeeds, deleting what never was does not", func(w *World) {
		p := w.OnePartition()
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic))
		w.WithoutCounter(func() { require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic)) })
		more, err := w.S.PurgeStep(w.Ctx, 10)
		require.NoError(w.T, err)
		require.False(w.T, more)
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic), "also when it is purged")
		require.ErrorIs(w.T, w.S.DeleteTopic(w.Ctx, catalog.NewUUID()), catalog.ErrUnknownTopic)
	}},
	{"A13 D17 H33 a deleted topic refuses publishes and becomes garbage in steps", a13},
	{"partitions are added behind those that are there", func(w *World) {
		w.Register(1, 2)
		topic := w.Topic(1, 1)
		require.ErrorIs(w.T, w.S.AddPartitions(w.Ctx, topic.ID, 1, On(0, 1)), catalog.ErrInvalid)
		require.ErrorIs(w.T, w.S.AddPartitions(w.Ctx, topic.ID, 3, On(1, 1)), catalog.ErrInvalid)
		require.NoError(w.T, w.S.AddPartitions(w.Ctx, topic.ID, 3, On(2, 2)))
		require.Equal(w.T, catalog.BrokerID(2), w.Led(topic, 2).Row().Leader)
		require.ErrorIs(w.T, w.S.AddPartitions(w.Ctx, catalog.NewUUID(), 3, On(2, 2)), catalog.ErrUnknownTopic)
	}},
	{"configs are set, removed and replaced, and what changes nothing moves nothing", func(w *World) {
		p := w.OnePartition()
		id := p.ID.Topic
		value := func(s string) *string { return &s }
		configs := func() map[string]string {
			ch, err := w.S.Pull(w.Ctx, catalog.Position{})
			require.NoError(w.T, err)
			return ch.Topics[0].Configs
		}
		require.NoError(w.T, w.S.AlterConfigs(w.Ctx, id, []catalog.ConfigChange{{Name: "a", Value: value("1")}, {Name: "b", Value: value("2")}}, false))
		require.Equal(w.T, map[string]string{"a": "1", "b": "2"}, configs())
		require.NoError(w.T, w.S.AlterConfigs(w.Ctx, id, []catalog.ConfigChange{{Name: "a"}, {Name: "c", Value: value("")}}, false))
		require.Equal(w.T, map[string]string{"b": "2", "c": ""}, configs())
		w.WithoutCounter(func() {
			require.NoError(w.T, w.S.AlterConfigs(w.Ctx, id, []catalog.ConfigChange{{Name: "b", Value: value("2")}}, false))
		})
		require.NoError(w.T, w.S.AlterConfigs(w.Ctx, id, []catalog.ConfigChange{{Name: "d", Value: value("4")}}, true))
		require.Equal(w.T, map[string]string{"d": "4"}, configs())
		require.ErrorIs(w.T, w.S.AlterConfigs(w.Ctx, catalog.NewUUID(), nil, true), catalog.ErrUnknownTopic)
	}},
}

func a13(w *World) {
	p := w.OnePartition()
	other := w.OnePartition()
	other.Upload(0, 10)
	var keys []string
	for i := range 7 {
		o := p.Row().Tiered
		keys = append(keys, p.Upload(o, o+10).Key)
		require.Len(w.T, keys, i+1)
	}
	pending := p.Announce(p.Segment(70, 80))
	keys = append(keys, pending.Key)
	require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic))

	_, err := w.S.Publish(w.Ctx, p.Guard, pending)
	require.ErrorIs(w.T, err, catalog.ErrUnknownTopic)
	require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, p.Intent(p.Segment(70, 80))), catalog.ErrUnknownTopic)
	require.Empty(w.T, w.Garbage(), "nothing big happens in the deletion itself")

	steps := 0
	for more := true; more; steps++ {
		more, err = w.S.PurgeStep(w.Ctx, 3)
		require.NoError(w.T, err)
	}
	require.GreaterOrEqual(w.T, steps, 3)
	require.ElementsMatch(w.T, keys, w.Garbage())
	_, err = w.S.Partition(w.Ctx, p.ID)
	require.ErrorIs(w.T, err, catalog.ErrNotFound)
	require.Equal(w.T, "[0,10)", other.Ranges(), "the neighbour is as it was")
}
