package replication_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

// A follower whose session only says that it is there counts as much as one that asks for every partition each time: the
// in-sync set and the high watermark of a leader that is told of moves alone are, at every moment, those of its twin
// that is told of every fetch (P11, E5).
func TestP11_APresenceStandsForEveryFetch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := catalog.Partition{Leader: 1, LeaderEpoch: 5, Replicas: []catalog.BrokerID{1, 2}, ISR: members(1, 2), Version: 10}
		began := func() *replication.Followers {
			return replication.NewFollowers(replication.FollowersOptions{Self: member(1), Row: row, MinISR: 1, LagMax: 30 * time.Second})
		}
		lazy, twin := began(), began()
		presence := &replication.Presence{}
		var now time.Duration
		var end, hw, at record.Offset
		moved := true
		fetch := func() {
			came := now
			twin.Fetched(member(2), at, end, now)
			if moved {
				lazy.Fetched(member(2), at, end, now)
				if moved = at < end; !moved {
					lazy.Stays(2, presence)
				}
			}
			presence.Came(came)
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) { now += time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second },
			"fetches pass": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "fetches") {
					now += 5 * time.Second
					fetch()
				}
			},
			"append":   func(*rapid.T) { end++; moved = true },
			"catch up": func(*rapid.T) { at, moved = end, moved || at != end; fetch() },
			"lose":     func(*rapid.T) { at, moved = at/2, moved || at > 0 },
			"forget": func(*rapid.T) { // what follows is a session that does not hold the partition, then one that does
				lazy.Leaves(2)
				now += time.Minute
				presence.Came(now)
				presence, moved = &replication.Presence{}, true
			},
			"decide": func(t *rapid.T) {
				a, wantsA := lazy.Plan(hw, end, now, true)
				b, wantsB := twin.Plan(hw, end, now, true)
				if wantsA != wantsB || len(a.ISR) != len(b.ISR) {
					t.Fatalf("at %v: %v %v, its twin %v %v", now, a, wantsA, b, wantsB)
				}
				if wantsA {
					row.ISR, row.Version = a.ISR, row.Version+1
					lazy.Answered(row, now)
					twin.Answered(row, now)
					moved = true
				}
			},
			"": func(t *rapid.T) {
				if lazy.Reach() != twin.Reach() || lazy.InSync() != twin.InSync() {
					t.Fatalf("reach %d of %d in sync, its twin %d of %d", lazy.Reach(), lazy.InSync(), twin.Reach(), twin.InSync())
				}
				if r := lazy.Reach(); r >= 0 {
					hw = max(hw, min(r, end))
				}
			},
		})
	})
}
