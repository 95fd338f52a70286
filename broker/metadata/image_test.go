package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/topicconfig"
	"tidemark/catalog"
)

func topic(name string) catalog.Topic { return catalog.Topic{ID: catalog.NewUUID(), Name: name} }

func row(t catalog.Topic, n int32, leader catalog.BrokerID) catalog.Partition {
	return catalog.Partition{ID: catalog.PartitionID{Topic: t.ID, Partition: n}, Leader: leader, Replicas: []catalog.BrokerID{leader}}
}

// pulled applies changes to an image with the built-in defaults.
func pulled(im *Image, ch catalog.Changes) *Image { return im.apply(ch, &topicconfig.Defaults{}) }

func TestAnImageNeverChangesOnceItIsThere(t *testing.T) {
	a, b := topic("a"), topic("b")
	first := pulled(&Image{}, catalog.Changes{
		Full: true, Topics: []catalog.Topic{a, b}, Partitions: []catalog.Partition{row(a, 0, 1), row(a, 1, 1), row(b, 0, 1)},
		Brokers: []catalog.Broker{{ID: 1, Live: true}, {ID: 2}},
	})
	moved := row(a, 1, 2)
	second := pulled(first, catalog.Changes{
		Partitions: []catalog.Partition{moved}, Deleted: []catalog.TopicID{b.ID}, Brokers: []catalog.Broker{{ID: 2, Live: true}},
	})

	old, _ := first.Topic("a")
	require.Equal(t, catalog.BrokerID(1), old.Partitions[1].Leader)
	_, there := first.Topic("b")
	require.True(t, there)
	require.Len(t, first.Brokers(), 1)
	require.Len(t, first.Registered(), 2)

	now, _ := second.TopicByID(a.ID)
	require.Equal(t, catalog.BrokerID(2), now.Partitions[1].Leader)
	require.Equal(t, catalog.BrokerID(1), now.Partitions[0].Leader)
	_, there = second.Topic("b")
	require.False(t, there, "gone by its tombstone")
	require.Len(t, second.Brokers(), 2)
}

func TestATopicGoesOnlyByATombstoneOrAFullPull(t *testing.T) {
	a, b := topic("a"), topic("b")
	im := pulled(&Image{}, catalog.Changes{Full: true, Topics: []catalog.Topic{a, b}})
	im = pulled(im, catalog.Changes{})
	require.Len(t, im.Topics(), 2)
	im = pulled(im, catalog.Changes{Full: true, Topics: []catalog.Topic{b}})
	require.Len(t, im.Topics(), 1)
	require.Equal(t, "b", im.Topics()[0].Name)
}

// D18: a name that is used again stands for the new topic alone.
func TestD18_ANameUsedAgainIsTheNewTopic(t *testing.T) {
	old, fresh := topic("a"), topic("a")
	im := pulled(&Image{}, catalog.Changes{Full: true, Topics: []catalog.Topic{old}})
	im = pulled(im, catalog.Changes{Deleted: []catalog.TopicID{old.ID}, Topics: []catalog.Topic{fresh}})
	got, ok := im.Topic("a")
	require.True(t, ok)
	require.Equal(t, fresh.ID, got.ID)
	_, ok = im.TopicByID(old.ID)
	require.False(t, ok)
}

func TestAPartitionThatIsNotThereIsNotFound(t *testing.T) {
	a := topic("a")
	im := pulled(&Image{}, catalog.Changes{Full: true, Topics: []catalog.Topic{a}, Partitions: []catalog.Partition{row(a, 2, 1)}})
	for n, want := range map[int32]bool{-1: false, 0: true, 2: true, 3: false} {
		p, ok := im.Partition(catalog.PartitionID{Topic: a.ID, Partition: n})
		require.Equal(t, want, ok, n)
		if n == 0 {
			require.Equal(t, catalog.NoBroker, p.Leader, "its row has not come yet")
		}
	}
}

func TestCollidesIsAboutDotsAndUnderscores(t *testing.T) {
	im := pulled(&Image{}, catalog.Changes{Full: true, Topics: []catalog.Topic{topic("a.b_c"), topic("plain")}})
	for name, want := range map[string]string{"a_b.c": "a.b_c", "a.b_c": "", "a.b-c": "", "plain": "", "a.b_cd": ""} {
		other, ok := im.Collides(name)
		require.Equal(t, want != "", ok, name)
		require.Equal(t, want, other, name)
	}
}
