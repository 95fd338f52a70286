package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
)

const lease = 2500 * time.Millisecond

// talk tells a Watch a conversation: "at 250 sees 1:5 2:7 c1:3" is an answer of time 250 ms that shows
// broker 1 at lease 5, broker 2 at 7 and broker 1 as controller at 3; "2:-" is a broker that is not
// live. After each line stands what the watch says then.
func talk(t *testing.T, conversation string) {
	t.Helper()
	w := NewWatch(lease)
	for line := range strings.Lines(conversation) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		told, want, _ := strings.Cut(line, "=>")
		words := strings.Fields(told)
		var ms int64
		_, err := fmt.Sscan(words[1], &ms)
		require.NoError(t, err)
		now := time.Duration(ms) * time.Millisecond
		if words[2] == "sees" {
			w.Observe(now, now, leasesOf(t, words[3:]))
		}
		require.Equal(t, strings.TrimSpace(want), verdict(w, now), "after %q", told)
	}
}

func leasesOf(t *testing.T, words []string) catalog.Leases {
	t.Helper()
	ls := catalog.Leases{Controller: catalog.Controller{Broker: catalog.NoBroker}}
	for _, word := range words {
		var n int32
		var at int64
		if word == "elsewhere" {
			ls.Server = 1
			continue
		}
		if strings.HasPrefix(word, "c") {
			_, err := fmt.Sscanf(word, "c%d:%d", &n, &at)
			require.NoError(t, err)
			ls.Controller = catalog.Controller{Broker: catalog.BrokerID(n), Incarnation: 1, Epoch: 1, Lease: at}
			continue
		}
		id, value, _ := strings.Cut(word, ":")
		_, err := fmt.Sscan(id, &n)
		require.NoError(t, err)
		b := catalog.BrokerLease{ID: catalog.BrokerID(n), Live: value != "-", SeenLease: catalog.SeenLease{Incarnation: 1}}
		if b.Live {
			_, err = fmt.Sscan(value, &b.Lease)
			require.NoError(t, err)
		}
		ls.Brokers = append(ls.Brokers, b)
	}
	return ls
}

func verdict(w *Watch, now time.Duration) string {
	var says []string
	if w.Quiet(now) {
		says = append(says, "quiet")
	}
	var dead []int
	for _, b := range w.Dead(now) {
		dead = append(dead, int(b.ID))
	}
	slices.Sort(dead)
	for _, id := range dead {
		says = append(says, fmt.Sprintf("%d is dead", id))
	}
	if _, free := w.Controller(now); free {
		says = append(says, "role free")
	}
	return strings.Join(says, ", ")
}

func TestALeaseThatStandsStillIsDead(t *testing.T) {
	talk(t, `
		at 0    sees 1:5 2:7 c1:3    =>
		at 1000 sees 1:6 2:7 c1:4    =>
		at 2000 sees 1:7 2:7 c1:5    =>
		at 2499 sees 1:8 2:7 c1:6    =>
		at 2500 sees 1:8 2:7 c1:6    => 2 is dead
		at 2600 sees 1:8 2:8 c1:6    =>
		at 2700 sees 1:8 2:- c1:6    =>`)
}

func TestTheControllersRoleIsFreeWhenItsRowStandsStill(t *testing.T) {
	talk(t, `
		at 0    sees 1:5 2:7         => role free
		at 250  sees 1:5 2:7 c1:1    =>
		at 1250 sees 1:5 2:9 c1:1    =>
		at 2250 sees 1:5 2:9 c1:1    =>
		at 2750 sees 1:5 2:9 c1:1    => 1 is dead, role free`)
}

func TestH16_AGapInTheAnswersBeginsAnew(t *testing.T) {
	talk(t, `
		at 0    sees 1:5 c2:1    =>
		at 1000 sees 1:5 c2:1    =>
		at 2400 sees 1:5 c2:1    =>
		at 2600 sees 1:5 c2:1    =>
		at 3700 sees 1:5 c2:1    =>
		at 4850 sees 1:5 c2:1    =>
		at 4900 sees 1:5 c2:1    => 1 is dead, role free
		at 6200 -                => quiet`)
}

func TestH7_AfterAnOutageNobodyActsForALeasesLength(t *testing.T) {
	talk(t, `
		at 0     sees 1:5 c2:1   =>
		at 10000 sees 1:5 c2:1   => quiet
		at 11000 sees 1:5 c2:1   => quiet
		at 12000 sees 1:6 c2:2   => quiet
		at 12500 sees 1:6 c2:2   =>
		at 13500 sees 1:6 c2:3   =>
		at 14500 sees 1:6 c2:4   => 1 is dead`)
}

func TestH2_AfterAnotherServerAnswersNobodyActsForALeasesLength(t *testing.T) {
	talk(t, `
		at 0     sees 1:5 c2:1            =>
		at 1000  sees 1:5 c2:2            =>
		at 2000  sees 1:5 c2:3            =>
		at 2400  sees 1:5 c2:3 elsewhere  => quiet
		at 3400  sees 1:5 c2:3 elsewhere  => quiet
		at 4600  sees 1:6 c2:4 elsewhere  => quiet
		at 4900  sees 1:6 c2:4 elsewhere  =>`)
}

func TestTheHolderOfAnID(t *testing.T) {
	w := NewWatch(lease)
	_, free := w.Holder(1)
	require.False(t, free, "nobody has been asked")
	w.Observe(0, 0, leasesOf(t, []string{"1:5", "2:-"}))
	_, free = w.Holder(2)
	require.True(t, free)
	_, free = w.Holder(3)
	require.True(t, free)
	for now := time.Duration(0); now < lease; now += lease / 5 {
		w.Observe(now, now, leasesOf(t, []string{"1:5"}))
		_, free = w.Holder(1)
		require.False(t, free)
	}
	w.Observe(lease, lease, leasesOf(t, []string{"1:5"}))
	held, free := w.Holder(1)
	require.True(t, free)
	require.Equal(t, catalog.SeenLease{Incarnation: 1, Lease: 5}, held.SeenLease)
}

// Whoever raises the lease within its length, counted from before the raise was sent, is never dead in
// anybody's eyes, however slow answers are and whenever the catalog is away (R13).
func TestR13_ALivingHolderIsNeverDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWatch(lease)
		ms := func(lo, hi int, what string) time.Duration {
			return time.Duration(rapid.IntRange(lo, hi).Draw(t, what)) * time.Millisecond
		}
		var sent, landed, next time.Duration // of the raise that stands
		value := int64(1)
		sent, next = 0, ms(0, 2400, "renew")
		for now := time.Duration(0); now < 30*time.Second; {
			asked := now + ms(1, 400, "ask")
			if rapid.IntRange(0, 20).Draw(t, "outage") == 0 {
				asked += ms(0, 8000, "away")
			}
			snapshot := asked + ms(0, 300, "to the snapshot")
			for next <= snapshot {
				// A raise lands at once or later, but before its holder would have given up.
				sent, value = next, value+1
				landed = sent + ms(0, 100, "raise")
				next = landed + ms(1, 2300, "renew")
			}
			if landed > snapshot {
				snapshot = landed
			}
			answered := snapshot + ms(0, 300, "answer")
			w.Observe(asked, answered, catalog.Leases{
				Brokers:    []catalog.BrokerLease{{ID: 1, Live: true, SeenLease: catalog.SeenLease{Incarnation: 1, Lease: value}}},
				Controller: catalog.Controller{Broker: 1, Incarnation: 1, Epoch: 1, Lease: value},
			})
			// The holder trusts itself until a length after the last raise was sent.
			if asked < sent+lease {
				require.Empty(t, w.Dead(answered), "asked at %v, raised by a call of %v", asked, sent)
				_, free := w.Controller(answered)
				require.False(t, free)
			}
			now = answered
		}
	})
}

func TestNextIsTheMomentAtWhichALeaseCanBeDead(t *testing.T) {
	w := NewWatch(lease)
	w.Observe(0, 100*time.Millisecond, leasesOf(t, []string{"1:5", "2:-", "c3:1"}))
	require.Equal(t, 350*time.Millisecond, w.Next(100*time.Millisecond, 250*time.Millisecond))
	require.Equal(t, 2600*time.Millisecond, w.Next(2400*time.Millisecond, 250*time.Millisecond))
}
