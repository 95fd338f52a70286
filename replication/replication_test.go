package replication

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
)

func member(b catalog.BrokerID, inc catalog.Incarnation) catalog.Member {
	return catalog.Member{Broker: b, Incarnation: inc}
}

// alive is brokers that are live with the given incarnations.
func alive(incs map[catalog.BrokerID]catalog.Incarnation) Brokers {
	bs := Brokers{}
	for id, inc := range incs {
		bs[id] = catalog.Broker{ID: id, Incarnation: inc, Live: true}
	}
	return bs
}

func TestElectionStories(t *testing.T) {
	type live = map[catalog.BrokerID]catalog.Incarnation // of who is live
	three := []catalog.BrokerID{1, 2, 3}
	gone := catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4)}}
	for _, c := range []struct {
		story   string
		p       catalog.Partition
		live    live
		unclean bool
		leader  catalog.BrokerID
		loss    Loss
		offline bool
		logs    Logs
	}{
		{"the preferred in-sync replica leads", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(2, 7), member(1, 5)}}, live{1: 5, 2: 7}, false, 1, NoLoss, false, nil},
		{"an in-sync replica of an old incarnation does not count (KIP-903)", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4), member(2, 7)}}, live{1: 5, 2: 7}, false, 2, NoLoss, false, nil},
		{"H6: the eligible set comes next", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 5)}, ELR: []catalog.Member{member(3, 9)}}, live{3: 9}, false, 3, NoLoss, false, nil},
		{"H5: the last member lost its disk, RF 3: offline", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4)}}, live{1: 5, 2: 7, 3: 9}, false, 0, NoLoss, true, nil},
		{"H5: the same with unclean election allowed", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4)}}, live{2: 7}, true, 2, MayLose, false, nil},
		{"H5: RF 1 comes back by itself", catalog.Partition{Replicas: three[:1], ISR: []catalog.Member{member(1, 4)}}, live{1: 5}, false, 1, MayLose, false, nil},
		{"H5: of two that may lose, the longer one leads", gone, live{2: 7, 3: 9}, true, 3, MayLose, false, Logs{2: {4, 100}, 3: {4, 120}}},
		{"H5: the later epoch goes before the longer log", gone, live{2: 7, 3: 9}, true, 2, MayLose, false, Logs{2: {5, 100}, 3: {4, 120}}},
		{"H5: equal logs: the first of the replicas", gone, live{2: 7, 3: 9}, true, 2, MayLose, false, Logs{2: {4, 120}, 3: {4, 120}}},
		{"H5: who tells nothing comes last, also before one without records", gone, live{2: 7, 3: 9}, true, 3, MayLose, false, Logs{3: {-1, 0}}},
		{"H5: nobody tells anything", gone, live{2: 7, 3: 9}, true, 2, MayLose, false, Logs{}},
		{"H5: the longest log of one that is not live does not count", gone, live{2: 7, 3: 9}, true, 2, MayLose, false, Logs{1: {9, 999}, 2: {4, 2}, 3: {4, 1}}},
		{"logs decide nothing where an eligible replica is live", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4)}, ELR: []catalog.Member{member(2, 7)}}, live{2: 7, 3: 9}, true, 2, NoLoss, false, Logs{2: {4, 1}, 3: {9, 999}}},
		{"nobody is there", catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4)}}, live{}, true, 0, NoLoss, true, nil},
	} {
		t.Run(c.story, func(t *testing.T) {
			e, loss, ok := Elect(c.p, alive(c.live), Settings{MinISR: 1, Unclean: c.unclean}, c.logs)
			require.Equal(t, !c.offline, ok)
			if ok {
				require.Equal(t, c.leader, e.Leader)
				require.Equal(t, c.loss, loss)
			}
		})
	}
}

// Logs are asked only where they decide: two or more live replicas, none of them in sync or eligible, loss accepted.
func TestH5_WhoseLogsDecide(t *testing.T) {
	three := []catalog.BrokerID{1, 2, 3}
	p := catalog.Partition{Replicas: three, ISR: []catalog.Member{member(1, 4)}}
	accepted := Settings{MinISR: 2, Unclean: true}
	type live = map[catalog.BrokerID]catalog.Incarnation
	require.Equal(t, []catalog.BrokerID{1, 3}, LogsDecide(p, alive(live{1: 5, 3: 9}), accepted), "broker 1 is somebody new")
	require.Empty(t, LogsDecide(p, alive(live{3: 9}), accepted), "there is no choice")
	require.Empty(t, LogsDecide(p, alive(live{1: 4, 3: 9}), accepted), "one is in sync")
	require.Empty(t, LogsDecide(p, alive(live{1: 5, 3: 9}), Settings{MinISR: 2}), "no loss is accepted")
}

// Whoever is elected is live, a replica, in the new in-sync set, and no member of it is an old incarnation.
func TestElectionsAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		live := map[catalog.BrokerID]catalog.Incarnation{}
		p := catalog.Partition{}
		for id := catalog.BrokerID(1); id <= 4; id++ {
			inc := catalog.Incarnation(rapid.Int64Range(1, 2).Draw(t, "incarnation"))
			if rapid.Bool().Draw(t, "live") {
				live[id] = inc
			}
			if !rapid.Bool().Draw(t, "replica") {
				continue
			}
			p.Replicas = append(p.Replicas, id)
			m := member(id, catalog.Incarnation(rapid.Int64Range(1, 2).Draw(t, "as member")))
			switch rapid.IntRange(0, 2).Draw(t, "set") {
			case 0:
				p.ISR = append(p.ISR, m)
			case 1:
				p.ELR = append(p.ELR, m)
			}
		}
		e, loss, ok := Elect(p, alive(live), Settings{MinISR: rapid.IntRange(1, 3).Draw(t, "min.insync.replicas"), Unclean: rapid.Bool().Draw(t, "unclean")}, nil)
		if !ok {
			return
		}
		require.Contains(t, p.Replicas, e.Leader)
		require.Contains(t, e.ISR, member(e.Leader, live[e.Leader]))
		for _, m := range e.ISR {
			require.Equal(t, live[m.Broker], m.Incarnation)
		}
		if loss == NoLoss {
			require.Contains(t, append(append([]catalog.Member{}, p.ISR...), p.ELR...), member(e.Leader, live[e.Leader]))
		}
	})
}

func TestPlacement(t *testing.T) {
	b := func(id catalog.BrokerID, rack string) catalog.Broker {
		return catalog.Broker{ID: id, Rack: rack, Live: true}
	}
	away := func(id catalog.BrokerID) catalog.Broker { return catalog.Broker{ID: id} }
	four := []catalog.Broker{b(1, "a"), b(2, "a"), b(3, "b"), b(4, "b")}
	for _, c := range []struct {
		story        string
		brokers      []catalog.Broker
		n, rf, first int
		want         [][]catalog.BrokerID
	}{
		{"leaders spread, neighbours in other racks", four, 4, 2, 0, [][]catalog.BrokerID{{1, 3}, {3, 2}, {2, 4}, {4, 1}}},
		{"who dies leaves its leaderships to more than one", []catalog.Broker{b(1, ""), b(2, ""), b(3, "")}, 6, 2, 0, [][]catalog.BrokerID{{1, 2}, {2, 3}, {3, 1}, {1, 3}, {2, 1}, {3, 2}}},
		{"the default factor is what is live, at most 3", []catalog.Broker{b(1, ""), away(2)}, 2, 0, 0, [][]catalog.BrokerID{{1}, {1}}},
		{"who is away counts where the live ones are too few, and is not preferred", []catalog.Broker{away(1), b(2, ""), b(3, ""), away(4)}, 2, 3, 1, [][]catalog.BrokerID{{3, 2, 4}, {2, 3, 1}}},
		{"nobody is given to who is away without need", []catalog.Broker{away(1), b(2, ""), b(3, "")}, 1, 2, 0, [][]catalog.BrokerID{{2, 3}}},
		{"fewer brokers than replicas", []catalog.Broker{b(1, "")}, 1, 2, 0, nil},
		{"nobody is live", []catalog.Broker{away(1), away(2)}, 1, 2, 0, nil},
	} {
		t.Run(c.story, func(t *testing.T) {
			got, err := Place(c.brokers, c.n, c.rf, c.first)
			if c.want == nil {
				require.ErrorAs(t, err, &TooFewBrokersError{})
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

// Racks of any sizes: a partition has its replicas in as many racks as there are replicas or racks, leaders are even, and so are
// replicas where racks do not forbid it.
func TestPlacementSpreadsOverUnequalRacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live []catalog.Broker
		racks := map[catalog.BrokerID]string{}
		sizes := map[string]int{}
		for id := range catalog.BrokerID(rapid.IntRange(1, 9).Draw(t, "brokers")) {
			racks[id] = rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "rack")
			sizes[racks[id]]++
			live = append(live, catalog.Broker{ID: id, Rack: racks[id], Live: true})
		}
		rf := rapid.IntRange(1, len(live)).Draw(t, "replication factor")
		rounds := rapid.IntRange(1, 6).Draw(t, "rounds")
		placed, err := Place(live, rounds*len(live), rf, rapid.IntRange(0, 100).Draw(t, "first"))
		require.NoError(t, err)
		leads, holds := map[catalog.BrokerID]int{}, map[catalog.BrokerID]int{}
		for _, replicas := range placed {
			in, ids := map[string]int{}, map[catalog.BrokerID]bool{}
			for _, id := range replicas {
				in[racks[id]]++
				ids[id] = true
				holds[id]++
			}
			leads[replicas[0]]++
			require.Len(t, ids, rf, "replicas on different brokers")
			require.Len(t, in, min(rf, len(sizes)), "racks of %v", replicas)
		}
		for _, b := range live {
			require.Equal(t, rounds, leads[b.ID], "leaderships of %d", b.ID)
			if len(sizes) == 1 {
				require.InDelta(t, rounds*rf, holds[b.ID], 2, "replicas of %d", b.ID)
			}
		}
	})
}
