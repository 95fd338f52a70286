package integration

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"tidemark/broker/admin"
	"tidemark/integration/checker"
	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// A1: a segment that cannot be uploaded holds up what comes after it; nothing is passed, nothing is freed.
func TestA1_AFailedUploadIsNotPassed(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "a1", 1, "local.retention.bytes", "1")
	stores.S3.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: http.MethodPut, Path: `/0/0{18}10/`}, Status: 400, Code: "InvalidRequest"})
	produceTens(t, n, "a1", 0, 31)
	tiered(t, n, "a1", 9)
	harness.Holds(t, 3*time.Second, "nothing passes the segment that fails", func() error {
		p, err := n.Partition("a1", 0)
		if err == nil && (p.Tiered != 10 || p.LocalStart > 10) {
			err = fmt.Errorf("tiered %d, localStart %d", p.Tiered, p.LocalStart)
		}
		return err
	})
	readTens(t, n, "a1", 0, 31)
	harness.Until(t, 2*time.Minute, "it is told", func() error {
		p, err := n.Partition("a1", 0)
		if got := n.Metric("tidemark_tier_stalled"); err == nil && (got != 1 || p.Upload == nil || p.Upload.Stalled == "") {
			err = fmt.Errorf("%v partitions are stalled, this one: %+v", got, p.Upload)
		}
		return err
	})
	stores.S3.Clear()
	tiered(t, n, "a1", 29)
	readTens(t, n, "a1", 0, 31)
	harness.Until(t, 2*time.Minute, "nothing is stalled", func() error {
		if got := n.Metric("tidemark_tier_stalled"); got != 0 {
			return fmt.Errorf("%v partitions are", got)
		}
		return nil
	})
}

// A2: retention passes what could not be uploaded; the uploader goes on at start and does not look back.
func TestA2_RetentionPassesTheUpload(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "a2", 1, "retention.bytes", fmt.Sprint(20*batchBytes))
	stores.S3.Add(s3proxy.Rule{Match: putSegment, Drop: true})
	produceTens(t, n, "a2", 0, 101)
	harness.Until(t, 2*time.Minute, "retention moves start", func() error {
		if got := n.Offset(t, "a2", 0, harness.Start); got < 80 {
			return fmt.Errorf("start %d", got)
		}
		return nil
	})
	start := n.Offset(t, "a2", 0, harness.Start)
	require.EqualValues(t, 80, start, "two whole segments and the active one are left")
	stores.S3.Clear()
	stores.S3.Forget()
	tiered(t, n, "a2", 99)
	for base := range 8 { // the attempt that was under way may end
		skipped := s3proxy.Match{Verb: http.MethodPut, Path: fmt.Sprintf("/0/%020d/", base*10)}
		require.LessOrEqual(t, stores.S3.Count(skipped), 1, "uploads of the skipped segment at %d", base*10)
	}
	readTens(t, n, "a2", 80, 101)
	agree(t, n, stores)
}

// A7: every object is what its row says, batch by batch, although produce never rests.
func TestA7_ObjectsAreWhatTheirRowsSay(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "a7", 1, append([]string{"segment.ms", "300"}, small...)...)
	l := pour(t, n, "a7", 300)
	harness.Until(t, 2*time.Minute, "ten objects", func() error {
		rows, err := n.Segments("a7", 0)
		if err == nil && len(rows) < 10 {
			err = fmt.Errorf("%d objects", len(rows))
		}
		return err
	})
	rows, err := n.Segments("a7", 0)
	require.NoError(t, err)
	for _, row := range rows {
		judgeObject(t, stores, row)
	}
	l.end(time.Minute)
	l.verify()
}

// judgeObject reads an object from the bucket and walks its batches with nothing of the broker's code.
func judgeObject(t *testing.T, stores harness.Stores, row admin.Segment) {
	t.Helper()
	b := make([]byte, row.Bytes)
	info, err := stores.Bucket.Stat(t.Context(), row.Key)
	require.NoError(t, err)
	if info.Size > row.Bytes { // the row counts batches only
		b = make([]byte, info.Size)
	}
	require.NoError(t, stores.Bucket.ReadRange(t.Context(), row.Key, 0, b))
	sum := sha256.Sum256(b)
	require.Equal(t, row.SHA256, hex.EncodeToString(sum[:]), row.Key)
	offset, records, newest := int64(row.Base), int64(0), int64(-1)
	for offset < int64(row.Next) {
		require.EqualValues(t, offset, binary.BigEndian.Uint64(b), row.Key)
		length := 12 + int(binary.BigEndian.Uint32(b[8:]))
		require.EqualValues(t, 2, b[16])
		require.Equal(t, binary.BigEndian.Uint32(b[17:]), crc32.Checksum(b[21:length], crc32.MakeTable(crc32.Castagnoli)))
		offset += int64(binary.BigEndian.Uint32(b[23:])) + 1
		newest = max(newest, int64(binary.BigEndian.Uint64(b[35:])))
		records += int64(binary.BigEndian.Uint32(b[57:]))
		b = b[length:]
	}
	require.EqualValues(t, row.Next, offset, row.Key)
	require.Equal(t, row.Records, records, row.Key)
	require.Equal(t, row.MaxTimestamp, newest, row.Key)
}

// A9: the process dies after the store has the object and before the catalog has the row, again and again.
func TestA9_KilledBetweenPutAndPublish(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "a9", 2, small...)
	l := pour(t, n, "a9", 1000)
	for range kills(t) {
		stores.S3.Add(s3proxy.Rule{Match: putSegment, Times: 1, Edit: func(*http.Response) { _ = syscall.Kill(n.Pid(), syscall.SIGKILL) }})
		n.Wait(2 * time.Minute)
		stores.S3.Clear()
		n.Start()
		l.flows(time.Minute, "produce after a start")
	}
	l.end(time.Minute)
	drained(t, n, "a9")
	l.verify()
	agree(t, n, stores)
}

// A13: a topic is deleted while one of its uploads is between PUT and commit.
func TestA13_TopicDeletedUnderAnUpload(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "a13", 1)
	produceTens(t, n, "a13", 0, 31)
	tiered(t, n, "a13", 29)
	id := topicID(t, n, "a13")
	put, gone := make(chan struct{}), make(chan struct{})
	stores.S3.Add(s3proxy.Rule{Match: putSegment, Times: 1, Edit: func(*http.Response) { close(put); <-gone }})
	produceTens(t, n, "a13", 31, 41)
	select {
	case <-put:
	case <-time.After(time.Minute):
		close(gone)
		require.Fail(t, "no upload of the fourth segment")
	}
	n.DeleteTopic(t, "a13")
	close(gone)
	harness.Until(t, 2*time.Minute, "the bucket has nothing of the topic", func() error {
		if left := keysOf(t, stores, id); len(left) > 0 {
			return fmt.Errorf("it has %v", left)
		}
		return nil
	})
	agree(t, n, stores)
}

// A16: the answer to the COMMIT of a publish is lost, again and again.
func TestA16_LostAnswersOfPublishes(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "a16", 2, small...)
	l := pour(t, n, "a16", 1000)
	l.flows(time.Minute, "produce")
	for range 10 {
		stores.S3.Add(s3proxy.Rule{Match: putSegment, Times: 1, Edit: func(*http.Response) { stores.PG.LoseReplies(2) }})
		before := stores.S3.Count(putSegment)
		harness.Until(t, 2*time.Minute, "an upload after the lost answer", func() error {
			if got := stores.S3.Count(putSegment); got <= before+1 {
				return fmt.Errorf("%d uploads, %d before", got, before)
			}
			return nil
		})
		stores.S3.Clear()
	}
	l.end(time.Minute)
	drained(t, n, "a16")
	l.verify()
	agree(t, n, stores)
}

// A19: tiering is switched on for a topic that has segments of several epochs. It cannot be switched off.
func TestA19_TieringSwitchedOnLater(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "a19", 1, "remote.storage.enable", "false")
	for round := range 4 {
		produceTens(t, n, "a19", round*50, (round+1)*50)
		require.EqualValues(t, -1, n.Offset(t, "a19", 0, harness.LatestTiered))
		require.Zero(t, n.Term())
		n.Start()
	}
	produceTens(t, n, "a19", 200, 201)
	n.AlterTopic(t, "a19", "remote.storage.enable", "true")
	tiered(t, n, "a19", 199)
	readTens(t, n, "a19", 0, 201)
	agree(t, n, stores)
	off := "false"
	got, err := kadm.NewClient(n.Client(t)).AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "remote.storage.enable", Value: &off}}, "a19")
	require.NoError(t, err)
	require.ErrorContains(t, errors.Join(got[0].Err), "INVALID_CONFIG")
}

// L2: the bucket is away for much longer than local retention would last: not a byte is freed that is not tiered.
func TestL2_BucketAwayForThreeTimesLocalRetention(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "l2", 1, "local.retention.bytes", fmt.Sprint(10*batchBytes), "local.retention.ms", "1000")
	stores.S3.Add(s3proxy.Rule{Drop: true})
	produceTens(t, n, "l2", 0, 101)
	harness.Holds(t, 4*time.Second, "all is still on disk", func() error {
		p, err := n.Partition("l2", 0)
		if err == nil && (p.LocalStart != 0 || p.LocalBytes < 101*batchBytes) {
			err = fmt.Errorf("localStart %d, %d bytes", p.LocalStart, p.LocalBytes)
		}
		return err
	})
	readTens(t, n, "l2", 0, 101)
	stores.S3.Clear()
	tiered(t, n, "l2", 99)
	awaitCold(t, n, "l2", 90)
	readTens(t, n, "l2", 0, 101)
}

// D17: a topic is deleted while the bucket is away; its objects go when the bucket is back, after a restart too.
func TestD17_TopicDeletedWhileTheBucketIsAway(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	for _, topic := range []string{"d17", "other"} {
		tens(t, n, topic, 1)
		produceTens(t, n, topic, 0, 31)
		tiered(t, n, topic, 29)
	}
	id, other := topicID(t, n, "d17"), topicID(t, n, "other")
	stores.S3.Add(s3proxy.Rule{Drop: true})
	n.DeleteTopic(t, "d17")
	require.Len(t, keysOf(t, stores, id), 3)
	require.Zero(t, n.Term())
	n.Start()
	stores.S3.Clear()
	harness.Until(t, 2*time.Minute, "the deleted topic's objects are gone", func() error {
		if left := keysOf(t, stores, id); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
	require.Len(t, keysOf(t, stores, other), 3)
	readTens(t, n, "other", 0, 31)
	require.NoError(t, checker.Agree(context.Background(), n, stores.Bucket))
}
