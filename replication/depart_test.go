package replication

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
)

// set reads "1 2@9": members with incarnation 1 unless another follows.
func set(t *testing.T, text string) []catalog.Member {
	t.Helper()
	var ms []catalog.Member
	for word := range strings.FieldsSeq(text) {
		m := member(0, 1)
		if id, inc, ok := strings.Cut(word, "@"); ok {
			_, err := fmt.Sscan(id+" "+inc, &m.Broker, &m.Incarnation)
			require.NoError(t, err)
		} else {
			_, err := fmt.Sscan(word, &m.Broker)
			require.NoError(t, err)
		}
		ms = append(ms, m)
	}
	return ms
}

func text(ms []catalog.Member) string {
	var words []string
	for _, m := range ms {
		words = append(words, fmt.Sprint(m.Broker))
	}
	return strings.Join(words, " ")
}

func TestDepartureStories(t *testing.T) {
	three := []catalog.BrokerID{1, 2, 3}
	for _, c := range []struct {
		story    string
		leader   catalog.BrokerID
		isr, elr string
		leaving  []catalog.BrokerID
		minISR   int
		unclean  bool
		want     string // "leader L isr I elr E", "" if nothing is decided
	}{
		{"H17 a follower goes: nobody waits for it any more", 1, "1 2 3", "", []catalog.BrokerID{3}, 2, false, "leader 1 isr 1 2 elr "},
		{"the leader goes: the next in the order of the replicas leads", 1, "3 2 1", "", []catalog.BrokerID{1}, 2, false, "leader 2 isr 3 2 elr "},
		{"H6 the set gets too small: who goes stays eligible", 1, "1 2", "", []catalog.BrokerID{2}, 2, false, "leader 1 isr 1 elr 2"},
		{"H6 the leader goes and the set gets too small", 1, "1 2", "3", []catalog.BrokerID{1}, 2, false, "leader 2 isr 2 elr 3 1"},
		{"H5 the last member goes: offline, its set stays", 1, "1", "", []catalog.BrokerID{1}, 2, false, ""},
		{"H5 the last member goes, an eligible one lives", 1, "1", "3", []catalog.BrokerID{1}, 2, false, "leader 3 isr 3 elr 1"},
		{"what may lose is not decided in passing", 1, "1", "", []catalog.BrokerID{1}, 1, true, ""},
		{"all members go at once: they all stay in the set", 1, "1 2", "", []catalog.BrokerID{1, 2}, 2, false, ""},
		{"two of three go at once", 1, "1 2 3", "", []catalog.BrokerID{1, 2}, 2, false, "leader 3 isr 3 elr 1 2"},
		{"an eligible one goes: it has nothing to lose by it", 1, "1", "2", []catalog.BrokerID{2}, 2, false, ""},
	} {
		t.Run(c.story, func(t *testing.T) {
			id := catalog.PartitionID{Topic: catalog.NewUUID()}
			l := catalog.Left{
				Leaving: c.leaving,
				Partitions: []catalog.Partition{{
					ID: id, Leader: c.leader, Replicas: three, ISR: set(t, c.isr), ELR: set(t, c.elr), Version: 7,
				}},
			}
			for _, b := range three {
				gone := false
				for _, x := range c.leaving {
					gone = gone || x == b
				}
				l.Brokers = append(l.Brokers, catalog.Broker{ID: b, Incarnation: 1, Live: !gone})
			}
			got := Depart(l, func(catalog.PartitionID) Settings { return Settings{MinISR: c.minISR, Unclean: c.unclean} })
			if c.want == "" {
				require.Empty(t, got.Elections)
				return
			}
			require.Len(t, got.Elections, 1)
			e := got.Elections[0]
			require.Equal(t, c.want, fmt.Sprintf("leader %d isr %s elr %s", e.Leader, text(e.ISR), text(e.ELR)))
			require.Equal(t, catalog.Version(7), e.IfVersion)
		})
	}
}

func TestModel5_WhoLeavesAnOldIncarnationIsNotEligible(t *testing.T) {
	bs := Brokers{1: {ID: 1, Incarnation: 1, Live: true}, 2: {ID: 2, Incarnation: 9, Live: true}}
	p := catalog.Partition{Replicas: []catalog.BrokerID{1, 2}, ISR: set(t, "1 2@8")}
	e, loss, ok := Elect(p, bs, Settings{MinISR: 2}, nil)
	require.True(t, ok)
	require.Equal(t, NoLoss, loss)
	require.Equal(t, set(t, "1"), e.ISR)
	require.Empty(t, e.ELR)
}

// Every slot whose holder is gone gets a live one, no other slot moves; balancing evens out and then
// rests.
func TestSlotsAreGivenAndSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bs := Brokers{}
		live := 0
		for id := catalog.BrokerID(1); id <= 5; id++ {
			b := catalog.Broker{ID: id, Incarnation: 1, Live: rapid.Bool().Draw(t, "live")}
			bs[id] = b
			if b.Live {
				live++
			}
		}
		held := make([]catalog.SlotGuard, catalog.Slots)
		for i := range held {
			held[i] = catalog.SlotGuard{
				Slot: int32(i), Broker: catalog.BrokerID(rapid.IntRange(-1, 5).Draw(t, "holder")),
				Incarnation: catalog.Incarnation(rapid.Int64Range(1, 2).Draw(t, "incarnation")), Epoch: 4,
			}
		}
		move := func(moves []catalog.SlotMove) {
			for _, m := range moves {
				require.Equal(t, held[m.Slot].Epoch, m.IfEpoch)
				require.True(t, bs[m.To].Live)
				held[m.Slot] = catalog.SlotGuard{Slot: m.Slot, Broker: m.To, Incarnation: 1, Epoch: m.IfEpoch + 1}
			}
		}
		given := AssignSlots(held, bs)
		if live == 0 {
			require.Empty(t, given)
			return
		}
		for _, m := range given {
			g := held[m.Slot]
			require.False(t, bs[g.Broker].Live && g.Incarnation == 1, "slot %d had a live holder", m.Slot)
		}
		move(given)
		require.Empty(t, AssignSlots(held, bs))
		move(BalanceSlots(held, bs))
		require.Empty(t, BalanceSlots(held, bs), "it rests")
		count := map[catalog.BrokerID]int{}
		for _, g := range held {
			count[g.Broker]++
		}
		for id, b := range bs {
			if b.Live {
				require.GreaterOrEqual(t, count[id], catalog.Slots/live)
				require.LessOrEqual(t, count[id], (catalog.Slots+live-1)/live)
			}
		}
	})
}

func TestPreferredLeadersGetBackWhatIsTheirs(t *testing.T) {
	bs := alive(map[catalog.BrokerID]catalog.Incarnation{1: 1, 2: 1})
	p := func(leader catalog.BrokerID, isr string) catalog.Partition {
		return catalog.Partition{Leader: leader, Replicas: []catalog.BrokerID{1, 2, 3}, ISR: set(t, isr), Version: 3}
	}
	es := Preferred([]catalog.Partition{p(1, "1 2"), p(2, "2"), p(2, "1@9 2"), p(catalog.NoBroker, "1"), p(2, "2 1")}, bs)
	require.Equal(t, []catalog.Election{{Leader: 1, ISR: set(t, "2 1"), IfVersion: 3}}, es)
}
