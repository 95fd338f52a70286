package broker_test

import (
	"encoding/binary"
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// P1: an answer of thirty megabytes goes from the page cache to the socket; the broker allocates no more for it than for a
// small one. (kmsg would build it whole, in one slice for each connection.)
func TestP1_ALargeAnswerIsNotBuiltInMemory(t *testing.T) {
	n := brokertest.Start(t, brokertest.Options{})
	c := dial(t, n)
	id := c.create("large", 1, map[string]string{"max.message.bytes": "2097152"})
	const batches, rounds = 30, 5
	value := string(make([]byte, 1<<20))
	for range batches {
		require.Zero(t, c.produce("large", 0, batchOf(1, record.CodecNone, value)).ErrorCode)
	}
	req := fetchRequest(12, "large", id, 0, 0)
	req.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
	frame, window := c.Frame(req), make([]byte, 64<<10)
	read := func() {
		require.NoError(t, c.SendRaw(frame))
		_, err := io.ReadFull(c.Conn(), window[:4])
		require.NoError(t, err)
		left := int(binary.BigEndian.Uint32(window))
		require.Greater(t, left, batches<<20)
		for left > 0 {
			got, err := c.Conn().Read(window[:min(left, len(window))])
			require.NoError(t, err)
			left -= got
		}
	}
	read() // what is made once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		read()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/rounds, uint64(2<<20), "bytes allocated for an answer of %d MiB", batches)
}
