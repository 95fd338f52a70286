package broker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/catalog"
	"tidemark/record"
)

// H17: a broker that has lost the catalog alone leads nothing, although no successor tells it, because its partitions have
// no other replica. It answers NOT_LEADER_OR_FOLLOWER and leaves itself out of Metadata; where it was not alone, nobody does.
func TestH17_ABrokerWithoutTheCatalogIsToldByItsPeersThatItWasTakenOut(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{Env: []string{"TIDEMARK_DEFAULT_REPLICATION_FACTOR=1"}})
	dial(t, c.Node(1)).create("t", 3, nil)
	led := map[catalog.BrokerID]int32{}
	for _, p := range rows(t, c) {
		led[p.Leader] = p.ID.Partition
	}
	require.Len(t, led, 3)
	const victim = 2
	knows := func(id int) bool { return slices.Contains(nodesOf(t, c.Node(id)), victim) }
	produce := func() int16 {
		return dial(t, c.Node(victim)).produce("t", led[victim], batchOf(1, record.CodecNone, "v")).ErrorCode
	}
	require.Eventually(t, func() bool { return knows(victim) && produce() == 0 }, time.Minute, 20*time.Millisecond)

	c.Node(victim).PG.Freeze()
	require.Eventually(t, func() bool {
		return !knows(victim) && produce() == kerr.NotLeaderForPartition.Code
	}, time.Minute, 50*time.Millisecond, "it says that it does not lead, and where else to go")
	require.NotEmpty(t, nodesOf(t, c.Node(victim)))
	require.Eventually(t, func() bool { return !knows(1) }, time.Minute, 50*time.Millisecond)
}

// nodesOf is the brokers that a broker's Metadata names.
func nodesOf(t *testing.T, n *brokertest.Node) []int32 {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	var ids []int32
	for _, b := range ask[*kmsg.MetadataResponse](dial(t, n), req).Brokers {
		ids = append(ids, b.NodeID)
	}
	return ids
}

// Any replica tells where its own log ends, and the epoch of its last record, whoever leads: an election that accepts loss
// goes by it.
func TestAnyReplicaTellsWhereItsLogEnds(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 1, nil)
	var leader catalog.BrokerID
	require.Eventually(t, func() bool {
		leader = rows(t, c)[0].Leader
		return dial(t, c.Node(int(leader))).produce("t", 0, batchOf(3, record.CodecNone, "v")).ErrorCode == 0
	}, time.Minute, 20*time.Millisecond)
	for id := 1; id <= 3; id++ {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 5, -2
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp = -1
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
		got := ask[*kmsg.ListOffsetsResponse](dial(t, c.Node(id)), req).Topics[0].Partitions[0]
		require.Zero(t, got.ErrorCode, "broker %d", id)
		require.EqualValues(t, 3, got.Offset, "broker %d has what was acknowledged", id)
		require.Zero(t, got.LeaderEpoch)
		req.Topics[0].Partitions[0].Timestamp = -2
		got = ask[*kmsg.ListOffsetsResponse](dial(t, c.Node(id)), req).Topics[0].Partitions[0]
		require.Equal(t, catalog.BrokerID(id) == leader, got.ErrorCode == 0, "the start is the leader's to tell")
	}
}
