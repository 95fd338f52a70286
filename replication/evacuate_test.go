package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
)

func TestEvacuationStories(t *testing.T) {
	b := func(id catalog.BrokerID, rack string) catalog.Broker {
		return catalog.Broker{ID: id, Rack: rack, Live: true}
	}
	dead, goes := b(5, "e"), b(6, "f")
	dead.Live, goes.Leaving = false, true
	for _, c := range []struct {
		story   string
		brokers []catalog.Broker
		held    string // "1 2 3, 2 3": replicas of t-0, t-1 …; broker 2 leaves
		want    string // "t-1: 4 3"; or the error
	}{
		{"it has nothing", []catalog.Broker{b(1, ""), b(2, ""), b(3, "")}, "1 3, 3", ""},
		{"the newcomer stands where it stood", []catalog.Broker{b(1, ""), b(2, ""), b(3, ""), b(4, "")}, "1 2 3, 2 3 1", "t-0: 1 4 3; t-1: 4 3 1"},
		{"who has the fewest gets more", []catalog.Broker{b(1, ""), b(2, ""), b(3, ""), b(4, "")}, "2, 2, 2, 4, 3", "t-0: 1; t-1: 1; t-2: 3"},
		{"a rack of its own goes before few replicas", []catalog.Broker{b(1, "a"), b(2, "b"), b(3, "a"), b(4, "b")}, "1 2, 4, 4, 4", "t-0: 1 4"},
		{"two in one rack if there is no other", []catalog.Broker{b(1, "a"), b(2, "b"), b(3, "a")}, "1 2", "t-0: 1 3"},
		{"neither the dead nor those who leave too", []catalog.Broker{b(1, ""), b(2, ""), b(3, ""), dead, goes}, "1 2", "t-0: 1 3"},
		{"the leaving one may be dead itself", []catalog.Broker{b(1, ""), {ID: 2}, b(3, "")}, "2 1", "t-0: 3 1"},
		{"a copy on a dead broker stays", []catalog.Broker{b(1, ""), b(2, ""), b(3, ""), dead}, "5 2 1", "t-0: 5 3 1"},
		{"too few are left", []catalog.Broker{b(1, ""), b(2, ""), b(3, "")}, "3, 1 2 3",
			"broker 2 cannot leave: t-1 has 3 replicas, and only 2 other brokers are live and stay; start one more, or give the topic fewer replicas first"},
	} {
		t.Run(c.story, func(t *testing.T) {
			var held []Held
			for n, list := range strings.Split(c.held, ",") {
				h := Held{Topic: "t", Partition: int32(n)}
				for _, m := range set(t, list) {
					h.Replicas = append(h.Replicas, m.Broker)
				}
				held = append(held, h)
			}
			moves, err := Evacuate(2, c.brokers, held)
			var words []string
			for _, m := range moves {
				words = append(words, fmt.Sprintf("%s-%d: %s", m.Topic, m.Partition, strings.Trim(fmt.Sprint(m.Replicas), "[]")))
			}
			got := strings.Join(words, "; ")
			if err != nil {
				got = err.Error()
			}
			require.Equal(t, c.want, got)
		})
	}
}

// Whatever is planned, nobody is in a partition twice, each keeps its number of replicas and all that stayed, and doing it
// leaves nothing to plan.
func TestEvacuationIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var brokers []catalog.Broker
		for id := catalog.BrokerID(1); id <= 6; id++ {
			brokers = append(brokers, catalog.Broker{ID: id, Live: rapid.Bool().Draw(t, "live"), Leaving: rapid.IntRange(0, 5).Draw(t, "leaving") == 0,
				Rack: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rack")})
		}
		var held []Held
		for n := range rapid.IntRange(0, 8).Draw(t, "partitions") {
			ids := rapid.Permutation([]catalog.BrokerID{1, 2, 3, 4, 5, 6}).Draw(t, "replicas")
			held = append(held, Held{"t", int32(n), ids[:rapid.IntRange(1, 4).Draw(t, "factor")]})
		}
		moves, err := Evacuate(2, brokers, held)
		if err != nil {
			require.ErrorAs(t, err, &NoPlaceError{})
			return
		}
		for _, m := range moves {
			h := &held[m.Partition]
			require.Len(t, m.Replicas, len(h.Replicas))
			require.Len(t, slices.Compact(slices.Sorted(slices.Values(m.Replicas))), len(m.Replicas))
			for i, r := range h.Replicas {
				if r != 2 {
					require.Equal(t, r, m.Replicas[i])
				}
			}
			h.Replicas = m.Replicas
		}
		moves, err = Evacuate(2, brokers, held)
		require.NoError(t, err)
		require.Empty(t, moves)
	})
}
