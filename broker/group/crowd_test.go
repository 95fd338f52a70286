package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/catalog"
	"tidemark/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky fails now and then, before or after it did what it was asked.
type flaky struct{ *memory }

func (f flaky) CommitOffsets(ctx context.Context, ws []catalog.OffsetWrite) ([]error, error) {
	switch rand.IntN(10) {
	case 0:
		return nil, errAway
	case 1:
		_, _ = f.memory.CommitOffsets(ctx, ws)
		return nil, errAway
	}
	return f.memory.CommitOffsets(ctx, ws)
}

func (f flaky) GroupOffsets(ctx context.Context, group string) ([]catalog.CommittedOffset, error) {
	if rand.IntN(10) == 0 {
		return nil, errAway
	}
	return f.memory.GroupOffsets(ctx, group)
}

// TestACrowdOnManyConnections is for the race detector: everything at once on
// a few groups, slots lost and topics deleted in between. Each call is
// answered once, and what was acknowledged last to a lone writer is stored.
func TestACrowdOnManyConnections(t *testing.T) {
	store := newMemory(topicA, topicB)
	cfg := DefaultConfig()
	cfg.MinSessionTimeout, cfg.InitialRebalanceDelay = time.Millisecond, time.Millisecond
	c, err := New(Options{
		Offsets: flaky{store}, Topics: &names{ids: map[string]catalog.TopicID{"a": topicA, "b": topicB}}, Group: cfg,
		Guard:  func(string) (catalog.SlotGuard, bool) { return catalog.SlotGuard{}, true },
		Window: time.Millisecond, UnloadAfter: time.Millisecond, SweepInterval: time.Millisecond,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- c.Run(ctx) }()

	var asked, answered atomic.Int64
	var crowd sync.WaitGroup
	for n := range 6 {
		crowd.Go(func() {
			who := Identity{Generation: -1}
			var mu sync.Mutex
			for i := range 400 {
				mu.Lock()
				me := who
				mu.Unlock()
				me.Group = fmt.Sprintf("g%d", rand.IntN(3))
				asked.Add(1)
				switch rand.IntN(9) {
				case 0, 1:
					req := joinReq(me.MemberID)
					req.Group, req.SessionTimeout, req.RebalanceTimeout = me.Group, 5*time.Millisecond, 5*time.Millisecond
					c.Join(req, func(j JoinResponse) {
						mu.Lock()
						who.MemberID, who.Generation = j.MemberID, j.Generation
						mu.Unlock()
						answered.Add(1)
					})
				case 2:
					c.Sync(SyncRequest{Group: me.Group, MemberID: me.MemberID, Generation: me.Generation}, func(SyncResponse) { answered.Add(1) })
				case 3, 4:
					c.CommitOffsets(commitReq(me, "a", record.Offset(i)), func(CommitResponse) { answered.Add(1) })
				case 5:
					c.FetchOffsets(FetchRequest{Group: me.Group, All: n%2 == 0, Topics: []TopicPartitions{{Name: "a", Partitions: []int32{0}}}}, func(FetchResponse) { answered.Add(1) })
				case 6:
					c.DeleteGroup(me.Group, func(Code) { answered.Add(1) })
				case 7:
					c.DeleteOffsets(me.Group, []TopicPartitions{{Name: "a", Partitions: []int32{0}}}, func(Code, []Code) { answered.Add(1) })
				case 8:
					c.Heartbeat(me)
					c.Leave(me.Group, []LeaveMember{{MemberID: me.MemberID}})
					c.TopicDeleted(topicB)
					c.DropSlots([]int32{SlotOf(me.Group)})
					c.List(func([]Listing, Code) { answered.Add(1) })
				}
			}
		})
	}
	var stored record.Offset
	crowd.Go(func() {
		for i := range record.Offset(100) {
			got := make(chan CommitResponse, 1)
			c.CommitOffsets(commitReq(Identity{Group: "alone", Generation: -1}, "b", i), func(r CommitResponse) { got <- r })
			if r := <-got; r.Topics[0].Partitions[0].Code == OK {
				stored = i
			}
		}
	})
	crowd.Wait()
	cancel()
	require.NoError(t, <-ran)
	require.Equal(t, asked.Load(), answered.Load())
	require.Zero(t, c.held.Load(), "memory of groups that are gone")
	require.GreaterOrEqual(t, store.rows[commitKey{"alone", catalog.PartitionID{Topic: topicB}}].Offset, stored)
	require.Positive(t, stored)
}
