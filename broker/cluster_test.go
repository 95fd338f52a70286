package broker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker"
	"tidemark/broker/brokertest"
	"tidemark/catalog"
	"tidemark/integration/rawclient"
	"tidemark/internal/testenv"
	"tidemark/record"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// rows are the partitions of the catalog.
func rows(t *testing.T, c *brokertest.Cluster) []catalog.Partition {
	t.Helper()
	ch, err := c.Catalog.Pull(context.Background(), catalog.Position{})
	require.NoError(t, err)
	return ch.Partitions
}

func slots(t *testing.T, c *brokertest.Cluster) map[catalog.BrokerID]int {
	t.Helper()
	gs, err := c.Catalog.SlotHolders(context.Background())
	require.NoError(t, err)
	n := map[catalog.BrokerID]int{}
	for _, g := range gs {
		n[g.Broker]++
	}
	return n
}

func TestThreeBrokersOnAnEmptyDatabaseFormACluster(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{Env: []string{"TIDEMARK_BALANCE_DELAY=100ms"}})
	dial(t, c.Node(1)).create("t", 6, nil)
	led := map[catalog.BrokerID]int{}
	for _, p := range rows(t, c) {
		led[p.Leader]++
		require.Len(t, p.Replicas, 3, "the default replication factor")
		require.Len(t, p.ISR, 3)
	}
	require.Equal(t, map[catalog.BrokerID]int{1: 2, 2: 2, 3: 2}, led)
	require.Eventually(t, func() bool {
		n := slots(t, c)
		return n[1] >= 21 && n[2] >= 21 && n[3] >= 21
	}, time.Minute, 20*time.Millisecond, "the slots are spread")
}

// The new leader's row is there 3.5 s after the kill at the latest, whoever was killed (DESIGN §6).
func TestALeaderIsReplacedInTime(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 6, nil)
	ls, err := c.Catalog.Leases(t.Context())
	require.NoError(t, err)
	victim := ls.Controller.Broker // the worst case: it was the controller too
	began := time.Now()
	var killing sync.WaitGroup
	killing.Go(c.Node(int(victim)).Kill)
	defer killing.Wait()
	require.Eventually(t, func() bool {
		for _, p := range rows(t, c) {
			if p.Leader == victim || p.Leader == catalog.NoBroker || len(p.ISR) != 2 {
				return false
			}
		}
		return slots(t, c)[victim] == 0
	}, time.Minute, 10*time.Millisecond)
	took := time.Since(began)
	t.Logf("new leaders %v after the kill of the controller", took)
	if !testing.Short() { // of a machine that does much else it says nothing
		require.Less(t, took, 3500*time.Millisecond)
	}
}

func TestAPartitionMovesToOtherBrokers(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{Env: []string{"TIDEMARK_DEFAULT_REPLICATION_FACTOR=2"}})
	cl := dial(t, c.Node(1))
	cl.create("t", 1, nil)
	row := rows(t, c)[0]
	var other int32 // the broker that has no replica
	for id := int32(1); id <= 3; id++ {
		if !slices.Contains(row.Replicas, catalog.BrokerID(id)) {
			other = id
		}
	}
	follower := int32(row.Replicas[1])
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 5000
	req.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{
		{Partition: 0, Replicas: []int32{other, follower}}, {Partition: 1, Replicas: []int32{1}}}}}
	resp := ask[*kmsg.AlterPartitionAssignmentsResponse](cl, req)
	require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, resp.Topics[0].Partitions[1].ErrorCode)
	require.Eventually(t, func() bool {
		now := rows(t, c)[0]
		return slices.Equal(now.Replicas, []catalog.BrokerID{catalog.BrokerID(other), catalog.BrokerID(follower)}) &&
			len(now.Adding)+len(now.Removing) == 0 && slices.Contains(now.Replicas, now.Leader) && len(now.ISR) == 2
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return len(ask[*kmsg.ListPartitionReassignmentsResponse](cl, kmsg.NewPtrListPartitionReassignmentsRequest()).Topics) == 0
	}, time.Minute, 20*time.Millisecond)
}

func TestLeadersAreElectedOnRequestByTheController(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 3, nil)
	ls, err := c.Catalog.Leases(t.Context())
	require.NoError(t, err)
	for id := 1; id <= 3; id++ {
		req := kmsg.NewPtrElectLeadersRequest()
		req.Version, req.TimeoutMillis = 2, 5000
		resp := ask[*kmsg.ElectLeadersResponse](dial(t, c.Node(id)), req)
		if catalog.BrokerID(id) != ls.Controller.Broker {
			require.Equal(t, kerr.NotController.Code, resp.ErrorCode)
			continue
		}
		require.Zero(t, resp.ErrorCode)
		require.Len(t, resp.Topics[0].Partitions, 3)
		for _, p := range resp.Topics[0].Partitions {
			require.Equal(t, kerr.ElectionNotNeeded.Code, p.ErrorCode, "each is led by its preferred replica")
		}
	}
	require.Eventually(t, func() bool {
		meta := kmsg.NewPtrMetadataRequest()
		meta.Version = 12
		return ask[*kmsg.MetadataResponse](dial(t, c.Node(2)), meta).ControllerID == int32(ls.Controller.Broker)
	}, time.Minute, 20*time.Millisecond)
}

// A partition whose preferred replica is down stays with who leads it, and the administrator is told which replica is missing:
// Kafka's controller answers PREFERRED_LEADER_NOT_AVAILABLE where others could lead.
func TestAPreferredReplicaThatIsDownIsNamedAsTheReason(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 3, nil)
	require.NoError(t, c.Node(2).Stop())
	var resp *kmsg.ElectLeadersResponse
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(c.Live(), func(n *brokertest.Node) bool {
			req := kmsg.NewPtrElectLeadersRequest()
			req.Version, req.TimeoutMillis = 2, 5000
			resp = ask[*kmsg.ElectLeadersResponse](dial(t, n), req)
			return resp.ErrorCode == 0
		})
	}, time.Minute, 20*time.Millisecond, "one of the others is the controller")
	got, want := map[int32]int16{}, map[int32]int16{}
	for _, p := range resp.Topics[0].Partitions {
		got[p.Partition] = p.ErrorCode
	}
	for _, p := range rows(t, c) {
		want[int32(p.ID.Partition)] = kerr.ElectionNotNeeded.Code
		if p.Replicas[0] == 2 {
			want[int32(p.ID.Partition)] = kerr.PreferredLeaderNotAvailable.Code
		}
	}
	require.Equal(t, want, got)
}

// A clean stop hands over at once: nobody waits for a lease (L3).
func TestL3_U11_ACleanStopHandsOver(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{Env: []string{"TIDEMARK_BALANCE_DELAY=1h"}}) // it would hide who does not fetch
	dial(t, c.Node(1)).create("t", 6, nil)
	began := time.Now()
	require.NoError(t, c.Node(2).Stop())
	t.Logf("the stop took %v", time.Since(began))
	for _, p := range rows(t, c) {
		require.NotEqual(t, catalog.NoBroker, p.Leader)
		require.NotEqual(t, catalog.BrokerID(2), p.Leader)
		require.Len(t, p.ISR, 2)
	}
	require.Zero(t, slots(t, c)[2])

	began = time.Now()
	c.Restart(2)
	require.Eventually(t, func() bool {
		for _, p := range rows(t, c) {
			if len(p.ISR) != 3 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, "it is back in every in-sync set")
	t.Logf("back in every in-sync set %v after its start", time.Since(began))
}

// A topic that is created while followers fetch from its leaders is replicated like the first one.
func TestALaterTopicIsReplicatedToo(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	for _, topic := range []string{"first", "second"} {
		id := dial(t, c.Node(1)).create(topic, 3, nil)
		for _, p := range rows(t, c) {
			if p.ID.Topic != id {
				continue
			}
			leader := dial(t, c.Node(int(p.Leader)))
			var code int16
			require.Eventually(t, func() bool { // until the leader knows the topic
				code = leader.produce(topic, p.ID.Partition, batchOf(1, record.CodecNone, "v")).ErrorCode
				return code == 0 || code == kerr.RequestTimedOut.Code
			}, time.Minute, 20*time.Millisecond)
			require.Zero(t, code, "every replica of %s-%d has the records", topic, p.ID.Partition)
		}
	}
}

// Who was cut from the catalog for a lease's length is taken out, the controller too, and ends when it
// finds out (H27, K7).
func TestK7_AControllerThatIsCutFromTheCatalogIsReplacedAndEnds(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 3, nil)
	ls, err := c.Catalog.Leases(t.Context())
	require.NoError(t, err)
	cut := ls.Controller.Broker
	c.Node(int(cut)).PG.Freeze()
	require.Eventually(t, func() bool {
		for _, p := range rows(t, c) {
			if p.Leader == cut || len(p.ISR) != 2 {
				return false
			}
		}
		return slots(t, c)[cut] == 0
	}, time.Minute, 20*time.Millisecond)
	ls, err = c.Catalog.Leases(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, cut, ls.Controller.Broker)
	c.Node(int(cut)).PG.Thaw()
	require.ErrorIs(t, c.Node(int(cut)).Ended(), broker.ErrFenced)
	c.Restart(int(cut))
	require.Eventually(t, func() bool { return len(rows(t, c)[0].ISR) == 3 }, time.Minute, 20*time.Millisecond)
}

// G2 and H20: a coordinator that was stopped while a commit was on its way does not acknowledge it once
// another has the group, and what was committed there stands.
func TestG2_ADemotedCoordinatorAcknowledgesNothing(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 1, nil)
	var old *brokertest.Node
	require.Eventually(t, func() bool {
		old = coordinator(t, c, c.Node(1), "g")
		return old != nil && commit(t, old, "g", 10) == 0
	}, time.Minute, 20*time.Millisecond)
	old.PG.Freeze()
	late := make(chan int16, 1)
	go func() { late <- commit(t, old, "g", 15) }()
	var now *brokertest.Node
	require.Eventually(t, func() bool {
		for _, n := range c.Nodes {
			if n == old {
				continue
			}
			if now = coordinator(t, c, n, "g"); now != nil && now != old && commit(t, now, "g", 20) == 0 {
				return true
			}
		}
		return false
	}, time.Minute, 50*time.Millisecond)
	old.PG.Thaw()
	require.NotZero(t, <-late)
	require.ErrorIs(t, old.Ended(), broker.ErrFenced)
	offset, code := committed(t, now, "g")
	require.Zero(t, code)
	require.EqualValues(t, 20, offset)
	// G5: elsewhere the error stands beside the partition that was asked for.
	for _, n := range c.Live() {
		if n != now {
			_, code := committed(t, n, "g")
			require.Equal(t, kerr.NotCoordinator.Code, code)
		}
	}
}

// coordinator is the broker that a node names for a group, nil if it names none.
func coordinator(t *testing.T, c *brokertest.Cluster, n *brokertest.Node, group string) *brokertest.Node {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorKeys = 4, []string{group}
	found := ask[*kmsg.FindCoordinatorResponse](dial(t, n), req).Coordinators[0]
	if found.ErrorCode != 0 {
		return nil
	}
	return c.Node(int(found.NodeID))
}

// commit commits an offset of t-0 as a group without members and returns the code; 1 if no answer came.
func commit(t *testing.T, n *brokertest.Node, group string, offset int64) int16 {
	conn, err := rawclient.Dial(context.Background(), n.Addr)
	if err != nil {
		return 1
	}
	defer func() { _ = conn.Close() }()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 7, group, -1
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Offset = offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}}
	resp, err := conn.Do(req)
	if err != nil {
		return 1
	}
	return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func committed(t *testing.T, n *brokertest.Node, group string) (int64, int16) {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	p := ask[*kmsg.OffsetFetchResponse](dial(t, n), req).Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}
