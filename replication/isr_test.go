package replication_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

// talk is a conversation with one leader's view: broker 1 leads, 2 and 3 follow.
type talk struct {
	t   *testing.T
	f   *replication.Followers
	row catalog.Partition
	hw  record.Offset
	end record.Offset
	now time.Duration
	out strings.Builder
}

func member(b int) catalog.Member {
	return catalog.Member{Broker: catalog.BrokerID(b), Incarnation: catalog.Incarnation(100 * b)}
}

func members(bs ...int) (ms []catalog.Member) {
	for _, b := range bs {
		ms = append(ms, member(b))
	}
	return ms
}

func newTalk(t *testing.T, minISR int, end record.Offset, isr ...int) *talk {
	row := catalog.Partition{Leader: 1, LeaderEpoch: 5, Replicas: []catalog.BrokerID{1, 2, 3}, ISR: members(isr...), Version: 10}
	f := replication.NewFollowers(replication.FollowersOptions{
		Self: member(1), Row: row, Began: end, MinISR: minISR, LagMax: 30 * time.Second,
	})
	return &talk{t: t, f: f, row: row, end: end}
}

func (x *talk) say() {
	if reach := x.f.Reach(); reach >= 0 {
		x.hw = max(x.hw, min(reach, x.end))
	}
	fmt.Fprintf(&x.out, "hw %d of %d, %d in sync\n", x.hw, x.end, x.f.InSync())
}

func (x *talk) append(n int) *talk {
	x.end += record.Offset(n)
	fmt.Fprintf(&x.out, "append %d: ", n)
	x.say()
	return x
}

func (x *talk) fetch(b int, from record.Offset) *talk {
	x.f.Fetched(member(b), from, x.end, x.now)
	fmt.Fprintf(&x.out, "%d fetches %d: ", b, from)
	x.say()
	return x
}

func (x *talk) wait(d time.Duration) *talk {
	x.now += d
	fmt.Fprintf(&x.out, "%v later\n", d)
	return x
}

func (x *talk) plan() *talk {
	c, ok := x.f.Plan(x.hw, x.end, x.now, true)
	if !ok {
		fmt.Fprintln(&x.out, "asks for nothing")
		return x
	}
	fmt.Fprintf(&x.out, "asks for %s at version %d: ", ids(c.ISR), c.IfVersion)
	x.say()
	return x
}

// answer changes the row if it was asked for, as a catalog does.
func (x *talk) answer(isr ...int) *talk {
	if len(isr) > 0 {
		x.row.ISR, x.row.Version = members(isr...), x.row.Version+1
	}
	x.f.Answered(x.row, x.now)
	fmt.Fprintf(&x.out, "answer %s version %d: ", ids(x.row.ISR), x.row.Version)
	x.say()
	return x
}

func (x *talk) noAnswer() *talk {
	x.f.Unknown(x.now + 15*time.Second)
	fmt.Fprint(&x.out, "no answer: ")
	x.say()
	return x
}

func (x *talk) expect(golden string) {
	x.t.Helper()
	require.Equal(x.t, strings.TrimSpace(golden), strings.TrimSpace(x.out.String()))
}

func ids(ms []catalog.Member) string {
	var s []string
	for _, m := range ms {
		s = append(s, fmt.Sprint(m.Broker))
	}
	return "{" + strings.Join(s, " ") + "}"
}

func TestHighWatermarkIsWhatAllInSyncHave(t *testing.T) {
	newTalk(t, 2, 100, 1, 2, 3).append(10).fetch(2, 110).fetch(3, 105).fetch(3, 110).append(1).fetch(2, 111).plan().expect(`
append 10: hw 0 of 110, 3 in sync
2 fetches 110: hw 0 of 110, 3 in sync
3 fetches 105: hw 105 of 110, 3 in sync
3 fetches 110: hw 110 of 110, 3 in sync
append 1: hw 110 of 111, 3 in sync
2 fetches 111: hw 110 of 111, 3 in sync
asks for nothing`)
}

func TestH7_ShrinkCountsOnlyWhenItIsInTheCatalog(t *testing.T) {
	newTalk(t, 1, 100, 1, 2).fetch(2, 100).append(10).wait(31 * time.Second).plan().
		noAnswer().append(1).plan().answer(1).expect(`
2 fetches 100: hw 100 of 100, 2 in sync
append 10: hw 100 of 110, 2 in sync
31s later
asks for {1} at version 10: hw 100 of 110, 1 in sync
no answer: hw 100 of 110, 1 in sync
append 1: hw 100 of 111, 1 in sync
asks for {1} at version 10: hw 100 of 111, 1 in sync
answer {1} version 11: hw 111 of 111, 1 in sync`)
}

func TestH7_RefusalAfterAnUnknownOutcomeKeepsTheUnion(t *testing.T) {
	newTalk(t, 1, 100, 1).append(10).fetch(2, 110).plan().noAnswer().append(5).
		plan().answer().append(1).wait(16 * time.Second).plan().answer().expect(`
append 10: hw 110 of 110, 1 in sync
2 fetches 110: hw 110 of 110, 1 in sync
asks for {1 2} at version 10: hw 110 of 110, 1 in sync
no answer: hw 110 of 110, 1 in sync
append 5: hw 110 of 115, 1 in sync
asks for {1 2} at version 10: hw 110 of 115, 1 in sync
answer {1} version 10: hw 110 of 115, 1 in sync
append 1: hw 110 of 116, 1 in sync
16s later
asks for {1 2} at version 10: hw 110 of 116, 1 in sync
answer {1} version 10: hw 116 of 116, 1 in sync`)
}

func TestH6_HighWatermarkStopsBelowMinInsync(t *testing.T) {
	newTalk(t, 2, 100, 1, 2).fetch(2, 100).append(10).wait(31*time.Second).plan().answer(1).append(1).
		fetch(3, 100).plan().fetch(3, 111).plan().answer(1, 3).expect(`
2 fetches 100: hw 100 of 100, 2 in sync
append 10: hw 100 of 110, 2 in sync
31s later
asks for {1} at version 10: hw 100 of 110, 1 in sync
answer {1} version 11: hw 100 of 110, 1 in sync
append 1: hw 100 of 111, 1 in sync
3 fetches 100: hw 100 of 111, 1 in sync
asks for {1 3} at version 11: hw 100 of 111, 1 in sync
3 fetches 111: hw 100 of 111, 1 in sync
asks for {1 3} at version 11: hw 100 of 111, 1 in sync
answer {1 3} version 12: hw 111 of 111, 2 in sync`)
}

func TestExpandWaitsForTheStartOfTheEpoch(t *testing.T) {
	x := newTalk(t, 1, 100, 1, 3) // hw 0: this leader has not heard of more
	x.fetch(2, 50).plan().fetch(2, 100).plan().expect(`
2 fetches 50: hw 0 of 100, 2 in sync
asks for nothing
2 fetches 100: hw 0 of 100, 2 in sync
asks for {1 3 2} at version 10: hw 0 of 100, 2 in sync`)
}

func TestE9_AFollowerMayComeBackWithLess(t *testing.T) {
	newTalk(t, 2, 100, 1, 2, 3).fetch(2, 100).fetch(3, 100).append(10).fetch(2, 110).fetch(3, 104).
		fetch(2, 90).append(1).fetch(3, 111).fetch(2, 111).expect(`
2 fetches 100: hw 0 of 100, 3 in sync
3 fetches 100: hw 100 of 100, 3 in sync
append 10: hw 100 of 110, 3 in sync
2 fetches 110: hw 100 of 110, 3 in sync
3 fetches 104: hw 104 of 110, 3 in sync
2 fetches 90: hw 104 of 110, 3 in sync
append 1: hw 104 of 111, 3 in sync
3 fetches 111: hw 104 of 111, 3 in sync
2 fetches 111: hw 111 of 111, 3 in sync`)
}

func TestE6_AFetchOfAnotherLifeProvesNothingForTheMember(t *testing.T) {
	x := newTalk(t, 1, 0, 1, 2)
	x.end = 10
	reborn := catalog.Member{Broker: 2, Incarnation: 999}
	x.f.Fetched(reborn, 10, 10, x.now)
	require.Equal(t, record.NoOffset, x.f.Reach(), "the row still names the old life")
	c, ok := x.f.Plan(0, 10, 0, true)
	require.True(t, ok)
	require.Equal(t, []catalog.Member{member(1), reborn}, c.ISR)
	x.row.ISR, x.row.Version = c.ISR, 11
	x.f.Answered(x.row, 0)
	require.Equal(t, record.Offset(10), x.f.Reach())
}

func TestCaughtUpIsMeasuredByFetches(t *testing.T) {
	x := newTalk(t, 1, 0, 1, 2)
	for range 100 { // always a fetch behind, never far: it had at each fetch what was there at the one before
		end := x.end
		x.append(10).wait(5*time.Second).fetch(2, end)
	}
	_, ok := x.f.Plan(x.hw, x.end, x.now, true)
	require.False(t, ok)
	x.append(10).wait(31 * time.Second)
	_, ok = x.f.Plan(x.hw, x.end, x.now, false)
	require.False(t, ok, "nobody is taken out while shrinking is not allowed")
	c, ok := x.f.Plan(x.hw, x.end, x.now, true)
	require.True(t, ok)
	require.Equal(t, members(1), c.ISR)
}

func TestAnIdleFollowerStays(t *testing.T) {
	x := newTalk(t, 1, 100, 1, 2).fetch(2, 100).wait(time.Hour)
	_, ok := x.f.Plan(x.hw, x.end, x.now, true)
	require.False(t, ok, "it has all there is")
}

func TestRowBringsWhatOthersChanged(t *testing.T) {
	x := newTalk(t, 2, 100, 1, 2, 3).fetch(2, 100).append(10).fetch(2, 110)
	require.Equal(t, record.NoOffset, x.f.Reach(), "3 has not fetched")
	x.row.ISR, x.row.Version = members(1, 2), 11 // the lease of 3 ran out
	require.True(t, x.f.Row(x.row, x.now))
	require.Equal(t, record.Offset(110), x.f.Reach())
	old := x.row
	old.ISR, old.Version = members(1), 9
	require.False(t, x.f.Row(old, x.now), "an older row says nothing")
	require.Equal(t, 2, x.f.InSync())
}

// H6: a row that has an eligible set was decided by a min.insync.replicas above the number in sync, which the leader may
// not have read yet. HW stands until the set is empty.
func TestH6_TheHighWatermarkStandsWhileSomebodyIsEligible(t *testing.T) {
	one, two := catalog.Member{Broker: 1, Incarnation: 1}, catalog.Member{Broker: 2, Incarnation: 1}
	row := catalog.Partition{Leader: 1, Replicas: []catalog.BrokerID{1, 2}, ISR: []catalog.Member{one, two}, Version: 5}
	f := replication.NewFollowers(replication.FollowersOptions{Self: one, Row: row, MinISR: 1, LagMax: time.Second})
	f.Fetched(two, 10, 10, 0)
	if f.Reach() != 10 {
		t.Fatalf("reach %d", f.Reach())
	}
	row.ISR, row.ELR, row.Version = []catalog.Member{one}, []catalog.Member{two}, 6
	f.Row(row, 0)
	if f.Reach() != record.NoOffset {
		t.Fatalf("reach %d with one in sync, one eligible, min.insync.replicas 1", f.Reach())
	}
	// By its own settings the set is large enough: it asks for the same again, which empties the eligible set.
	c, ok := f.Plan(10, 12, 0, true)
	if !ok || c.IfVersion != 6 || len(c.ISR) != 1 {
		t.Fatalf("asks %v, %v", c, ok)
	}
	row.ELR, row.Version = nil, 7
	f.Answered(row, 0)
	if f.Reach() != replication.Unbounded || f.Pending() {
		t.Fatalf("reach %d, pending %v", f.Reach(), f.Pending())
	}
	f.SetMinISR(2)
	row.ELR, row.Version = []catalog.Member{two}, 8
	f.Row(row, 0)
	if _, ok := f.Plan(10, 12, 0, true); ok {
		t.Fatal("one of two is not enough: the eligible set is right")
	}
}

func TestALeaderIsAloneUntilItHasAFollower(t *testing.T) {
	row := catalog.Partition{Leader: 1, LeaderEpoch: 5, Replicas: []catalog.BrokerID{1}, ISR: members(1), Version: 10}
	f := replication.NewFollowers(replication.FollowersOptions{Self: member(1), Row: row, MinISR: 1, LagMax: time.Second})
	require.True(t, f.Alone())
	require.False(t, f.Wants(0, 10, time.Hour, true))
	row.Replicas, row.Version = []catalog.BrokerID{1, 2}, 11
	f.Row(row, 0)
	require.False(t, f.Alone())
	f.Fetched(member(2), 10, 10, 0)
	require.True(t, f.Wants(10, 10, 0, true))
	_, asked := f.Plan(10, 10, 0, true)
	require.True(t, asked)
	row.Replicas, row.ISR, row.Version = []catalog.BrokerID{1}, members(1), 12
	require.True(t, f.Row(row, 0))
	require.True(t, f.Alone())
}
