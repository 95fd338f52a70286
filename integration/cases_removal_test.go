package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// D4: retention removes objects under a reader: it hears where the log begins, never of a lost object.
func TestD4_RetentionUnderAReader(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "d4", 41)
	readTens(t, n, "d4", 0, 5)
	stores.S3.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: http.MethodDelete}, Delay: 3 * time.Second})
	n.AlterTopic(t, "d4", "retention.bytes", fmt.Sprint(20*batchBytes))
	moved := false
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		p := fetchOne(t, n, "d4", 5, 200)
		switch p.ErrorCode {
		case 0:
			require.False(t, moved, "offset 5 was out of range and came back")
		case kerr.OffsetOutOfRange.Code:
			moved = true
			require.EqualValues(t, 20, p.LogStartOffset)
		default:
			require.Fail(t, "wrong code", "%d", p.ErrorCode)
		}
		if moved && len(keysOf(t, stores, topicID(t, n, "d4"))) == 2 {
			break
		}
	}
	require.True(t, moved)
	readTens(t, n, "d4", 20, 41)
	agree(t, n, stores)
}

// D6, A17: DeleteRecords above what is tiered stays, over kills and lost caches.
func TestD6_A17_DeletedRecordsStayDeleted(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "d6", 1)
	produceTens(t, n, "d6", 0, 11)
	tiered(t, n, "d6", 9)
	produceTens(t, n, "d6", 11, 18)
	low, err := deleteRecords(t, n, "d6", 15)
	require.NoError(t, err)
	require.EqualValues(t, 15, low)
	for range 2 {
		n.Kill()
		n.DropCache()
		n.Start()
		require.EqualValues(t, 15, n.Offset(t, "d6", 0, harness.Start))
		require.Equal(t, kerr.OffsetOutOfRange.Code, fetchOne(t, n, "d6", 10, 200).ErrorCode)
		readTens(t, n, "d6", 15, 18)
	}
	_, err = deleteRecords(t, n, "d6", 19)
	require.ErrorIs(t, err, kerr.OffsetOutOfRange)
	produceTens(t, n, "d6", 18, 31)
	tiered(t, n, "d6", 29)
	readTens(t, n, "d6", 15, 31)
	low, err = deleteRecords(t, n, "d6", -1) // the high watermark
	require.NoError(t, err)
	require.EqualValues(t, 31, low)
	require.EqualValues(t, 31, n.Offset(t, "d6", 0, harness.Start))
	agree(t, n, stores)
}

// D8: timestamps of the far future neither keep data for ever nor come in where they are bounded.
func TestD8_TimestampsOfTheFuture(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	future := time.Now().AddDate(10, 0, 0)
	n.CreateTopic(t, "create", 1)
	n.CreateTopic(t, "append", 1, "message.timestamp.type", "LogAppendTime", "segment.bytes", "2000", "retention.ms", "-1")
	n.CreateTopic(t, "loose", 1, "message.timestamp.after.max.ms", "9223372036854775807", "segment.bytes", "2000", "retention.ms", "2000")
	cl := n.Client(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce := func(topic string) error {
		return cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: topic, Value: make([]byte, 1500), Timestamp: future}).FirstErr()
	}
	require.ErrorIs(t, produce("create"), kerr.InvalidTimestamp)
	for _, topic := range []string{"append", "loose"} {
		for range 3 {
			require.NoError(t, produce(topic))
		}
	}
	require.Less(t, recordsOf(t, fetchOne(t, n, "append", 0, 500))[0].Timestamp, time.Now().Add(time.Minute))
	n.AlterTopic(t, "append", "retention.ms", "2000")
	for _, topic := range []string{"append", "loose"} {
		harness.Until(t, 2*time.Minute, "the segments of "+topic+" expire", func() error {
			if got := n.Offset(t, topic, 0, harness.Start); got != 3 {
				return fmt.Errorf("start %d", got)
			}
			return nil
		})
	}
}

// D18, G9: a topic that is deleted and made again at once has nothing of the old one: records, objects, offsets.
func TestD18_G9_ATopicMadeAgain(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	adm := kadm.NewClient(n.Client(t))
	tens(t, n, "again", 1)
	produceTens(t, n, "again", 0, 100)
	tiered(t, n, "again", 89)
	old := topicID(t, n, "again")
	commit := kadm.Offsets{}
	commit.AddOffset("again", 0, 99, -1)
	require.NoError(t, adm.CommitAllOffsets(t.Context(), "g9", commit))

	n.DeleteTopic(t, "again")
	tens(t, n, "again", 1)
	produceTens(t, n, "again", 0, 10)
	require.EqualValues(t, 10, n.Offset(t, "again", 0, harness.Latest))
	readTens(t, n, "again", 0, 10)
	fetchedOffsets, err := adm.FetchOffsetsForTopics(t.Context(), "g9", "again")
	require.NoError(t, err)
	at, ok := fetchedOffsets.Lookup("again", 0)
	require.True(t, ok)
	require.EqualValues(t, -1, at.At)
	produceTens(t, n, "again", 10, 31)
	tiered(t, n, "again", 29)
	require.NotEqual(t, old, topicID(t, n, "again"))
	readTens(t, n, "again", 0, 31)
	harness.Until(t, 2*time.Minute, "the old objects are gone", func() error {
		if left := keysOf(t, stores, old); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
	agree(t, n, stores)
}
