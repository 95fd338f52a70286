package broker_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// H40: while nothing is tiered, -5 is answered -1 with epoch -1, also when start is above 0; -4 of a topic without object tier
// is its start.
func TestH40_NothingTieredHasNoLastOffset(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	c.create("tiered", 1, nil)
	c.create("local", 1, map[string]string{"remote.storage.enable": "false"})
	list := func(topic string, timestamp int64) kmsg.ListOffsetsResponseTopicPartition {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 9, -1
		part := kmsg.NewListOffsetsRequestTopicPartition()
		part.Timestamp = timestamp
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{part}}}
		got := ask[*kmsg.ListOffsetsResponse](c, req).Topics[0].Partitions[0]
		require.Zero(t, got.ErrorCode)
		return got
	}
	for _, topic := range []string{"tiered", "local"} {
		require.Zero(t, c.produce(topic, 0, batchOf(3, record.CodecNone, "v")).ErrorCode)
		for _, start := range []int64{0, 2} {
			del := kmsg.NewPtrDeleteRecordsRequest()
			del.Version, del.TimeoutMillis = 2, 5000
			del.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: start}}}}
			require.Zero(t, ask[*kmsg.DeleteRecordsResponse](c, del).Topics[0].Partitions[0].ErrorCode)
			require.EqualValues(t, start, list(topic, -2).Offset)
			last := list(topic, -5)
			require.EqualValues(t, -1, last.Offset, "%s from %d: not start - 1", topic, start)
			require.EqualValues(t, -1, last.LeaderEpoch)
			if topic == "local" {
				require.EqualValues(t, start, list(topic, -4).Offset)
			}
		}
	}
}
