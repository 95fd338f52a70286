package group

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var topicA, topicB = catalog.TopicID{0xa}, catalog.TopicID{0xb}

// office is a running Coordinator with its fakes, in a synctest bubble.
type office struct {
	*Coordinator
	t      *testing.T
	store  *memory
	topics *names
}

// inOffice runs f in a bubble where time is fake and waiting means that every
// goroutine is at rest.
func inOffice(t *testing.T, change func(*Options), f func(t *testing.T, o *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &office{t: t, store: newMemory(topicA, topicB), topics: &names{ids: map[string]catalog.TopicID{"a": topicA, "b": topicB}}}
		opts := Options{
			Offsets: o.store, Topics: o.topics, Group: DefaultConfig(),
			Guard: func(string) (catalog.SlotGuard, bool) { return catalog.SlotGuard{Epoch: 7}, true },
		}
		opts.Group.InitialRebalanceDelay = 0
		if change != nil {
			change(&opts)
		}
		var err error
		o.Coordinator, err = New(opts)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- o.Run(ctx) }()
		defer cancel() // if f fails
		f(t, o)
		cancel()
		require.NoError(t, <-done)
	})
}

// answer is a done function that remembers.
type answer[T any] struct {
	mu   sync.Mutex
	got  *T
	many int
}

func (a *answer[T]) done(v T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got, a.many = &v, a.many+1
}

// value waits until all is at rest; nil means no answer.
func (a *answer[T]) value(t *testing.T) *T {
	t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.LessOrEqual(t, a.many, 1, "answered twice")
	return a.got
}

func joinReq(member string) JoinRequest {
	return JoinRequest{
		Group: "g", MemberID: member, ClientID: "c", SessionTimeout: 10 * time.Second, RebalanceTimeout: 60 * time.Second,
		ProtocolType: "consumer", Protocols: []Protocol{{"range", nil}},
	}
}

// pass lets time pass in the bubble.
func (o *office) pass(d time.Duration) { time.Sleep(d) }

// stable makes a group of one member.
func (o *office) stable() Identity {
	o.t.Helper()
	var join answer[JoinResponse]
	o.Join(joinReq(""), join.done)
	j := join.value(o.t)
	require.NotNil(o.t, j)
	who := Identity{Group: "g", MemberID: j.MemberID, Generation: j.Generation}
	var sync answer[SyncResponse]
	o.Sync(SyncRequest{Group: "g", MemberID: who.MemberID, Generation: who.Generation, Assignments: []Assignment{{who.MemberID, []byte("all")}}}, sync.done)
	require.Equal(o.t, "all", string(sync.value(o.t).Assignment))
	return who
}

func commitReq(who Identity, topic string, offset record.Offset) CommitRequest {
	return CommitRequest{Identity: who, Topics: []CommitTopic{{Name: topic, Partitions: []CommitPartition{{Partition: 0, Offset: offset, LeaderEpoch: record.NoEpoch}}}}}
}

func (o *office) commit(req CommitRequest) *answer[CommitResponse] {
	a := &answer[CommitResponse]{}
	o.CommitOffsets(req, a.done)
	return a
}

// committed is what the commit was answered, a window later.
func (o *office) committed(a *answer[CommitResponse]) string {
	o.t.Helper()
	time.Sleep(20 * time.Millisecond)
	resp := a.value(o.t)
	if resp == nil {
		return "waits"
	}
	var codes []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			codes = append(codes, p.Code.String())
		}
	}
	return strings.Join(codes, " ")
}

// fetch is what OffsetFetch says of partition 0 of topic.
func (o *office) fetch(topic string) string {
	o.t.Helper()
	var a answer[FetchResponse]
	o.FetchOffsets(FetchRequest{Group: "g", Topics: []TopicPartitions{{Name: topic, Partitions: []int32{0}}}}, a.done)
	resp := a.value(o.t)
	if resp == nil {
		return "waits"
	}
	if resp.Code != OK {
		require.Equal(o.t, resp.Code, resp.Topics[0].Partitions[0].Code)
		return resp.Code.String()
	}
	p := resp.Topics[0].Partitions[0]
	if p.Code != OK {
		return p.Code.String()
	}
	return fmt.Sprint(p.Offset)
}

// stored is how many rows there are once all is at rest.
func (o *office) stored() int {
	synctest.Wait()
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	return len(o.store.rows)
}

func TestCommitAndFetch(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		require.Equal(t, "-1", o.fetch("a"))
		who := o.stable()
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 10))))
		require.Equal(t, "10", o.fetch("a"))
		require.Equal(t, "-1", o.fetch("nobody's"))
		require.EqualValues(t, 7, o.store.batches[0][0].Guard.Epoch)

		byID := commitReq(who, "", 12)
		byID.Topics[0].ID = topicB
		require.Equal(t, "ok", o.committed(o.commit(byID)))
		byID.Topics[0].ID = catalog.TopicID{0xc}
		require.Equal(t, "UNKNOWN_TOPIC_ID", o.committed(o.commit(byID)))
		require.Equal(t, "UNKNOWN_TOPIC_OR_PARTITION", o.committed(o.commit(commitReq(who, "nobody's", 1))))
		long := commitReq(who, "a", 1)
		long.Topics[0].Partitions[0].Metadata = strings.Repeat("x", 5000)
		require.Equal(t, "OFFSET_METADATA_TOO_LARGE", o.committed(o.commit(long)))

		var all answer[FetchResponse]
		o.FetchOffsets(FetchRequest{Group: "g", All: true}, all.done)
		require.Equal(t, []FetchedTopic{
			{Name: "a", ID: topicA, Partitions: []FetchedPartition{{Offset: 10, LeaderEpoch: record.NoEpoch}}},
			{Name: "b", ID: topicB, Partitions: []FetchedPartition{{Offset: 12, LeaderEpoch: record.NoEpoch}}},
		}, all.value(t).Topics)
	})
}

func TestH12_CommitsTakeEffectInOrder(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		gate := make(chan struct{})
		o.store.set(func() { o.store.frozen = gate })
		first := o.commit(commitReq(who, "a", 10))
		require.Equal(t, "waits", o.committed(first)) // its statement is under way
		second, third := o.commit(commitReq(who, "a", 20)), o.commit(commitReq(who, "a", 15))
		require.Equal(t, "waits", o.committed(third))
		o.store.set(func() { o.store.frozen = nil })
		close(gate)
		time.Sleep(time.Second)
		for _, a := range []*answer[CommitResponse]{first, second, third} {
			require.Equal(t, "ok", o.committed(a))
		}
		require.Equal(t, "15", o.fetch("a"))
		require.Len(t, o.store.batches, 2)
		require.Len(t, o.store.batches[1], 1, "the last value of a key stands for all")
	})
}

func TestP9_CommitsAreGatheredBoundedAndSkipped(t *testing.T) {
	inOffice(t, func(o *Options) { o.MaxQueued = 3 }, func(t *testing.T, o *office) {
		who := o.stable()
		at := time.Now()
		require.NotNil(t, o.commit(commitReq(who, "a", 1)).value(t), "after a quiet time a commit goes at once")
		require.Zero(t, time.Since(at))
		require.Equal(t, "1", o.fetch("a"))
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 1))))
		require.Len(t, o.store.batches, 1, "a commit that changes nothing writes nothing")

		many := commitReq(who, "a", 2)
		for p := int32(1); p < 3; p++ {
			many.Topics[0].Partitions = append(many.Topics[0].Partitions, CommitPartition{Partition: p})
		}
		o.commit(commitReq(who, "a", 7)) // opens a window
		synctest.Wait()
		waits := o.commit(many)
		require.Nil(t, waits.value(t))
		refused := o.commit(commitReq(who, "b", 1))
		require.Equal(t, CoordinatorLoading, refused.value(t).Topics[0].Partitions[0].Code)
		require.Equal(t, "ok ok ok", o.committed(waits))
		require.Len(t, o.store.batches, 3)
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "b", 1))))
	})
}

func TestG4_CommitErrorsAreTold(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 1))))
		require.Equal(t, "1", o.fetch("a"))

		o.store.set(func() { o.store.away = true })
		require.Equal(t, "COORDINATOR_NOT_AVAILABLE", o.committed(o.commit(commitReq(who, "a", 2))))
		require.Equal(t, "COORDINATOR_LOAD_IN_PROGRESS", o.fetch("a"), "what is stored is not known now")
		require.Equal(t, OK, o.Heartbeat(who), "members stay")
		o.store.set(func() { o.store.away = false })
		require.Equal(t, "1", o.fetch("a"))

		// The answer of a COMMIT is lost: the row is there.
		time.Sleep(time.Second)
		o.store.set(func() { o.store.unclear = true })
		require.Equal(t, "COORDINATOR_NOT_AVAILABLE", o.committed(o.commit(commitReq(who, "a", 3))))
		o.store.set(func() { o.store.unclear = false })
		require.Equal(t, "3", o.fetch("a"))
		batches := len(o.store.batches)
		time.Sleep(time.Second)
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 3))))
		require.Len(t, o.store.batches, batches+1, "after an unclear outcome the value is written again")

		time.Sleep(time.Second)
		o.store.set(func() { o.store.fenced = true })
		require.Equal(t, "NOT_COORDINATOR", o.committed(o.commit(commitReq(who, "a", 4))))
	})
}

func TestG4_AFrozenDatabaseIsNoSuccess(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		gate := make(chan struct{})
		o.store.set(func() { o.store.frozen = gate })
		a := o.commit(commitReq(who, "a", 1))
		require.Equal(t, "waits", o.committed(a))
		time.Sleep(4 * time.Second)
		require.Equal(t, OK, o.Heartbeat(who))
		require.Equal(t, "waits", o.committed(a))
		time.Sleep(2 * time.Second)
		require.Equal(t, "COORDINATOR_NOT_AVAILABLE", o.committed(a))
		require.Zero(t, o.stored())
	})
}

// What is remembered is told only while nobody else can coordinate: a fetch and a commit of the same offset are answered from
// memory as long as the slot is sure.
func TestG2_AnUnsureCoordinatorTellsNoOldOffset(t *testing.T) {
	sure := true
	inOffice(t, func(o *Options) { o.Sure = func() bool { return sure } }, func(t *testing.T, o *office) {
		who := o.stable()
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 1))))
		require.Equal(t, "1", o.fetch("a"))
		sure = false
		gate := make(chan struct{})
		o.store.set(func() { o.store.frozen = gate })
		require.Equal(t, "COORDINATOR_LOAD_IN_PROGRESS", o.fetch("a"), "clients ask again")
		again := o.commit(commitReq(who, "a", 1))
		require.Equal(t, "waits", o.committed(again))
		require.Equal(t, OK, o.Heartbeat(who), "members stay")
		o.store.set(func() { o.store.frozen = nil })
		close(gate)
		synctest.Wait()
		require.Equal(t, "ok", o.committed(again))
		sure = true
		require.Equal(t, "1", o.fetch("a"))
	})
}

func TestG11_LoadingIsWholeOrNothing(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		id := catalog.PartitionID{Topic: topicA}
		o.store.rows[commitKey{"g", id}] = catalog.CommittedOffset{Group: "g", Partition: id, Offset: 5}
		gate := make(chan struct{})
		o.store.set(func() { o.store.frozen = gate })
		var first, second answer[FetchResponse]
		req := FetchRequest{Group: "g", Topics: []TopicPartitions{{Name: "a", Partitions: []int32{0}}}}
		o.FetchOffsets(req, first.done)
		o.FetchOffsets(req, second.done)
		require.Nil(t, first.value(t))
		time.Sleep(6 * time.Second)
		require.Equal(t, CoordinatorLoading, first.value(t).Code)
		require.Equal(t, CoordinatorLoading, second.value(t).Code)

		require.Equal(t, "waits", o.fetch("a"))
		o.store.set(func() { o.store.frozen = nil })
		close(gate)
		synctest.Wait()
		require.Equal(t, "5", o.fetch("a"))
		require.Equal(t, 2, o.store.loads, "one read at a time")
	})
}

func TestG11_NobodyQueuesForLongBehindAStoreThatHangs(t *testing.T) {
	inOffice(t, func(o *Options) { o.MaxLoads = 1 }, func(t *testing.T, o *office) {
		o.store.set(func() { o.store.frozen = make(chan struct{}) })
		answers := make([]answer[FetchResponse], 20)
		for i := range answers {
			o.FetchOffsets(FetchRequest{Group: fmt.Sprint(i)}, answers[i].done)
		}
		time.Sleep(5 * time.Second)
		for i := range answers {
			require.Equal(t, CoordinatorLoading, answers[i].value(t).Code)
		}
		o.store.set(func() { o.store.frozen = nil })
	})
}

func TestACommitDuringALoadIsNotLost(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		gate := make(chan struct{})
		o.store.set(func() { o.store.frozen = gate })
		require.Equal(t, "waits", o.fetch("a"))
		e, _, _ := o.find("g", true) // as if the load had read before this commit
		e.cache.durable(catalog.CommittedOffset{Partition: catalog.PartitionID{Topic: topicA}, Offset: 9})
		e.mu.Unlock()
		o.store.set(func() { o.store.frozen = nil })
		close(gate)
		synctest.Wait()
		require.Equal(t, "9", o.fetch("a"))
	})
}

func TestG9_ATopicMadeAgainHasNoOffsets(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		require.Equal(t, "-1", o.fetch("a"))
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 99))))
		time.Sleep(time.Second)

		again := catalog.TopicID{0xaa}
		o.topics.set("a", again)
		o.store.set(func() {
			delete(o.store.rows, commitKey{"g", catalog.PartitionID{Topic: topicA}})
			delete(o.store.topics, topicA)
			o.store.topics[again] = true
		})
		o.TopicDeleted(topicA)
		require.Equal(t, "-1", o.fetch("a"))
		byID := commitReq(who, "", 99)
		byID.Topics[0].ID = topicA
		require.Equal(t, "UNKNOWN_TOPIC_ID", o.committed(o.commit(byID)))
		require.Equal(t, "REBALANCE_IN_PROGRESS", o.committed(o.commit(commitReq(who, "a", 99))))
		require.Equal(t, RebalanceInProgress, o.Heartbeat(who))
		require.Zero(t, o.stored())

		var join answer[JoinResponse]
		o.Join(joinReq(who.MemberID), join.done)
		who.Generation = join.value(t).Generation
		var sync answer[SyncResponse]
		o.Sync(SyncRequest{Group: "g", MemberID: who.MemberID, Generation: who.Generation}, sync.done)
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 1))))
	})
}

func TestG9_ADeletionThatTheMetadataHasNotSeen(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		o.store.set(func() { delete(o.store.topics, topicA) })
		require.Equal(t, "UNKNOWN_TOPIC_OR_PARTITION", o.committed(o.commit(commitReq(who, "a", 9))))
		time.Sleep(time.Second)
		byID := commitReq(who, "", 9)
		byID.Topics[0].ID = topicA
		require.Equal(t, "UNKNOWN_TOPIC_ID", o.committed(o.commit(byID)))
	})
}

func TestL5_SessionsEndOnTime(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		for range 5 {
			time.Sleep(9 * time.Second)
			require.Equal(t, OK, o.Heartbeat(who))
		}
		time.Sleep(9999 * time.Millisecond)
		var d answer[Description]
		o.Describe("g", d.done)
		require.Equal(t, Stable, d.value(t).State)
		time.Sleep(2 * time.Millisecond)
		var after answer[Description]
		o.Describe("g", after.done)
		require.Equal(t, Empty, after.value(t).State)
		require.Equal(t, UnknownMemberID, o.Heartbeat(who))
	})
}

func TestARebalanceOfTwo(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		var second, first answer[JoinResponse]
		o.Join(joinReq(""), second.done)
		require.Nil(t, second.value(t))
		require.Equal(t, RebalanceInProgress, o.Heartbeat(who))
		o.Join(joinReq(who.MemberID), first.done)
		require.Equal(t, who.MemberID, second.value(t).LeaderID)
		require.Len(t, first.value(t).Members, 2)

		code, results := o.Leave("g", []LeaveMember{{MemberID: second.value(t).MemberID}, {MemberID: "nobody"}})
		require.Equal(t, OK, code)
		require.Equal(t, []Code{OK, UnknownMemberID}, []Code{results[0].Code, results[1].Code})
	})
}

func TestStrangers(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := Identity{Group: "none", MemberID: "m", Generation: 3}
		require.Equal(t, UnknownMemberID, o.Heartbeat(who))
		require.Equal(t, InvalidGroupID, o.Heartbeat(Identity{}))
		require.Equal(t, "UNKNOWN_MEMBER_ID", o.committed(o.commit(commitReq(who, "a", 1))))
		var join answer[JoinResponse]
		o.Join(JoinRequest{}, join.done)
		require.Equal(t, InvalidGroupID, join.value(t).Code)
		var d answer[Description]
		o.Describe("none", d.done)
		require.Equal(t, Description{Code: GroupIDNotFound, Group: "none", State: Dead}, *d.value(t))
		var gone answer[Code]
		o.DeleteGroup("none", gone.done)
		require.Equal(t, GroupIDNotFound, *gone.value(t))
		require.Empty(t, o.groups, "nobody's questions leave anything behind")
	})
}

func TestListDescribeAndDelete(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		admin := commitReq(Identity{Group: "only-offsets", Generation: -1}, "a", 4)
		require.Equal(t, "ok", o.committed(o.commit(admin)))
		var list []Listing
		o.List(func(l []Listing, code Code) { list = l; require.Equal(t, OK, code) })
		synctest.Wait()
		require.Equal(t, []Listing{{"g", "consumer", Stable}, {"only-offsets", "", Empty}}, list)

		for group, want := range map[string]Code{"g": NonEmptyGroup, "only-offsets": OK} {
			var a answer[Code]
			o.DeleteGroup(group, a.done)
			require.Equal(t, want, *a.value(t), group)
		}
		require.Zero(t, o.stored())
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 1))))
	})
}

func TestDeleteOffsets(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		both := commitReq(who, "a", 1)
		both.Topics = append(both.Topics, commitReq(who, "b", 2).Topics...)
		require.Equal(t, "ok ok", o.committed(o.commit(both)))
		// The member's subscription cannot be read, so all topics count as read.
		var busy []Code
		o.DeleteOffsets("g", []TopicPartitions{{Name: "a", Partitions: []int32{0}}}, func(c Code, each []Code) { require.Equal(t, OK, c); busy = each })
		synctest.Wait()
		require.Equal(t, []Code{GroupSubscribedToTopic}, busy)

		o.Leave("g", []LeaveMember{{MemberID: who.MemberID}})
		var free []Code
		o.DeleteOffsets("g", []TopicPartitions{{Name: "a", Partitions: []int32{0}}, {Name: "nobody's"}}, func(c Code, each []Code) { require.Equal(t, OK, c); free = each })
		synctest.Wait()
		require.Equal(t, []Code{OK, UnknownTopicOrPartition}, free)
		require.Equal(t, "-1", o.fetch("a"))
		require.Equal(t, "2", o.fetch("b"))
	})
}

func TestU9_OffsetsOfUnusedGroupsExpire(t *testing.T) {
	const day = 24 * time.Hour
	var doubt atomic.Bool
	inOffice(t, func(o *Options) { o.Wall = func() (time.Time, bool) { return time.Now(), !doubt.Load() } }, func(t *testing.T, o *office) {
		admin := Identity{Group: "g", Generation: -1}
		require.Equal(t, "ok", o.committed(o.commit(commitReq(admin, "a", 4))))
		time.Sleep(4 * day)
		require.Equal(t, "4", o.fetch("a"))
		require.Equal(t, "ok", o.committed(o.commit(commitReq(admin, "a", 4)))) // unchanged, but a sign of life
		time.Sleep(4 * day)
		require.Equal(t, 1, o.stored())
		doubt.Store(true) // the clocks differ: nothing expires
		time.Sleep(9 * day)
		require.Equal(t, 1, o.stored())
		doubt.Store(false)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Zero(t, o.stored())
		require.Empty(t, o.groups)
	})
}

// U9: a group with a member keeps its offsets, however long it commits nothing; once it is empty they expire.
func TestU9_OffsetsOfAGroupInUseStay(t *testing.T) {
	inOffice(t, func(o *Options) { o.Retention = time.Hour }, func(t *testing.T, o *office) {
		who := o.stable()
		require.Equal(t, "ok", o.committed(o.commit(commitReq(who, "a", 4))))
		for range 3 * 3600 / 5 {
			time.Sleep(5 * time.Second)
			require.Equal(t, OK, o.Heartbeat(who))
		}
		require.Equal(t, 1, o.stored())
		time.Sleep(2 * time.Hour) // it says nothing more
		synctest.Wait()
		require.Zero(t, o.stored())
	})
}

func TestSlotsThatAreLost(t *testing.T) {
	inOffice(t, nil, func(t *testing.T, o *office) {
		o.stable()
		var join answer[JoinResponse]
		o.Join(joinReq(""), join.done)
		require.Nil(t, join.value(t))
		o.DropSlots([]int32{SlotOf("other") + 1, SlotOf("g")})
		require.Equal(t, NotCoordinator, join.value(t).Code)
		require.Empty(t, o.groups)
	})
	// Kafka's Utils.abs("my-group".hashCode()) % 64, and a name outside ASCII.
	require.EqualValues(t, 30, SlotOf("my-group"))
	require.EqualValues(t, 60, SlotOf("grüppe-😀"))
}

func TestL3_CloseAnswersEverything(t *testing.T) {
	var join answer[JoinResponse]
	var fetch answer[FetchResponse]
	var pending *answer[CommitResponse]
	inOffice(t, nil, func(t *testing.T, o *office) {
		who := o.stable()
		o.store.set(func() { o.store.frozen = make(chan struct{}) })
		pending = o.commit(commitReq(who, "a", 1))
		o.FetchOffsets(FetchRequest{Group: "h"}, fetch.done)
		o.Join(joinReq(""), join.done)
		require.Nil(t, join.value(t))
	})
	require.Equal(t, CoordinatorNotAvailable, join.got.Code)
	require.NotEqual(t, OK, fetch.got.Code)
	require.Equal(t, CoordinatorNotAvailable, pending.got.Topics[0].Partitions[0].Code)
}

func BenchmarkHeartbeat(b *testing.B) {
	c, err := New(Options{
		Offsets: newMemory(), Topics: &names{}, Group: Config{MinSessionTimeout: 1, MaxSessionTimeout: time.Hour, NewMemberTimeout: time.Hour, MaxSize: 10},
		Guard: func(string) (catalog.SlotGuard, bool) { return catalog.SlotGuard{}, true },
	})
	require.NoError(b, err)
	defer c.Close()
	var j JoinResponse
	c.Join(joinReq(""), func(r JoinResponse) { j = r })
	who := Identity{Group: "g", MemberID: j.MemberID, Generation: j.Generation}
	b.ReportAllocs()
	for b.Loop() {
		if code := c.Heartbeat(who); code != OK {
			b.Fatal(code)
		}
	}
}
