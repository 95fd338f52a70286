package partition_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/record"
)

// batchOf is a batch of records with these times, values of so many zeros.
func batchOf(codec record.Codec, size int, times ...int64) []byte {
	b := record.NewBuilder(record.BuilderOptions{Codec: codec})
	for _, ts := range times {
		b.Add(ts, []byte("k"), make([]byte, size))
	}
	return b.Build()
}

// max.message.bytes holds for what is stored, however small it came, and 0 takes nothing.
func TestMaxMessageBytesHoldsForWhatIsStored(t *testing.T) {
	now := time.Now().UnixMilli()
	for _, c := range []struct {
		compression, largest string
		batch                []byte
		code                 int16
		says                 string
	}{
		{"uncompressed", "10000", batchOf(record.CodecZstd, 50_000, now), kerr.MessageTooLarge.Code, "max.message.bytes is 10000"},
		{"uncompressed", "10000", batchOf(record.CodecZstd, 9_000, now), 0, ""},
		{"gzip", "10000", batchOf(record.CodecLZ4, 50_000, now), 0, ""},
		{"producer", "10000", batchOf(record.CodecNone, 50_000, now), kerr.MessageTooLarge.Code, "max.message.bytes is 10000"},
		{"producer", "0", batchOf(record.CodecNone, 1, now), kerr.MessageTooLarge.Code, "max.message.bytes is 0"},
	} {
		w := newWorld(t, 1)
		w.create(map[string]string{"compression.type": c.compression, "max.message.bytes": c.largest})
		got := w.nodes[1].produce(1, patience, c.batch)
		require.Equal(t, c.code, got.ErrorCode, "%s, %s", c.compression, c.largest)
		if c.code != 0 {
			require.Contains(t, *got.ErrorMessage, c.says)
		}
	}
}

// Times whose differences overflow pass no bound, and those that are taken can be told when the batch is compressed again.
func TestTimestampsAtTheEdges(t *testing.T) {
	now := time.Now().UnixMilli()
	for _, compression := range []string{"producer", "zstd"} {
		w := newWorld(t, 1)
		w.create(map[string]string{"compression.type": compression})
		n := w.nodes[1]
		for _, ts := range []int64{math.MinInt64, math.MinInt64 + 1000, math.MaxInt64} {
			got := n.produce(1, patience, batchOf(record.CodecNone, 1, now, ts)) // the delta to now wraps
			require.NotZero(t, got.ErrorCode, ts)
			got = n.produce(1, patience, batchOf(record.CodecNone, 1, ts))
			require.Equal(t, kerr.InvalidTimestamp.Code, got.ErrorCode, ts)
		}
		require.Zero(t, n.produce(1, patience, batchOf(record.CodecNone, 1, now, record.NoTimestamp, -62135596800000)).ErrorCode)
		rest := n.bytesOf()
		_, err := record.Judge(rest, record.Rules{AllowEmpty: true})
		require.NoError(t, err, "as a follower and a publish judge")
	}
}

// A produce that carries nothing is refused for good, as Kafka does: CORRUPT_MESSAGE would be tried again for ever.
func TestAProduceWithoutABatchIsInvalid(t *testing.T) {
	w := newWorld(t, 1)
	w.create(nil)
	for _, none := range [][]byte{nil, {}} {
		require.Equal(t, kerr.InvalidRecord.Code, w.nodes[1].produce(1, patience, none).ErrorCode)
	}
}
