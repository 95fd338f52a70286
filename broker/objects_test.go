package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/catalog"
	"tidemark/record"
)

// P12: a topic asks for segments of 1 GiB, as tools of Kafka do. A segment of 132 MiB goes up as objects of at most 64 MiB, cut
// at batch edges, without a gap.
func TestP12_LargeSegmentsAreCutIntoObjects(t *testing.T) {
	const most, batches = 64 << 20, 33
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	id := c.create("p12", 1, map[string]string{"segment.bytes": "1073741824", "max.message.bytes": "8388608"})
	batch := batchOf(4, record.CodecNone, string(make([]byte, 1<<20)))
	for range batches {
		require.Zero(t, c.produce("p12", 0, append([]byte(nil), batch...)).ErrorCode)
	}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Version = 1
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 2, ResourceName: "p12",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "segment.ms", Value: kmsg.StringPtr("1")}}}}
	require.Zero(t, ask[*kmsg.IncrementalAlterConfigsResponse](c, alter).Resources[0].ErrorCode)
	var rows []catalog.Segment
	require.Eventually(t, func() bool {
		var err error
		rows, err = n.Catalog.ListSegments(context.Background(), catalog.PartitionID{Topic: id}, 0, 100)
		require.NoError(t, err)
		return len(rows) > 0 && rows[len(rows)-1].Next == 4*batches
	}, time.Minute, 20*time.Millisecond)
	require.Len(t, rows, 3)
	at := record.Offset(0)
	for _, row := range rows {
		require.Equal(t, at, row.Base)
		require.LessOrEqual(t, row.DataBytes, int64(most))
		require.Zero(t, row.DataBytes%int64(len(batch)), "whole batches")
		at = row.Next
	}
}
