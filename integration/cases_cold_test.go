package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// B4: an object is lost behind the broker's back. A reader stays where it is; only start moves it on.
func TestB4_ALostObjectIsNotPassed(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "b4", 41)
	rows, err := n.Segments("b4", 0)
	require.NoError(t, err)
	require.EqualValues(t, 10, rows[1].Base)
	require.NoError(t, stores.Bucket.Delete(t.Context(), rows[1].Key))
	harness.Until(t, 2*time.Minute, "the loss is told", func() error {
		p := fetchOne(t, n, "b4", 10, 500)
		require.Empty(t, p.RecordBatches)
		if p.ErrorCode != kerr.KafkaStorageError.Code {
			return fmt.Errorf("code %d", p.ErrorCode)
		}
		return nil
	})
	readTens(t, n, "b4", 0, 10)
	readTens(t, n, "b4", 20, 41)
	low, err := deleteRecords(t, n, "b4", 20)
	require.NoError(t, err)
	require.EqualValues(t, 20, low)
	p := fetchOne(t, n, "b4", 10, 500)
	require.Equal(t, kerr.OffsetOutOfRange.Code, p.ErrorCode)
	require.EqualValues(t, 20, p.LogStartOffset)
	readTens(t, n, "b4", 20, 41)
}

// B5: one fetch at each edge of an object, of the tier, of the local log and of the partition.
func TestB5_EveryEdge(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "b5", 1)
	produceTens(t, n, "b5", 0, 45)
	tiered(t, n, "b5", 39)
	for _, when := range []string{"with local data", "without"} {
		for offset := range int64(45) {
			p := fetchEventually(t, n, "b5", offset)
			require.Zero(t, p.ErrorCode, "%s: at %d", when, offset)
			rs := recordsOf(t, p)
			require.Equal(t, offset, rs[0].Offset, when)
			require.Equal(t, tenValue(int(offset)), string(rs[0].Value), when)
		}
		end := fetchOne(t, n, "b5", 45, 0)
		require.Zero(t, end.ErrorCode)
		require.Empty(t, end.RecordBatches)
		require.Equal(t, kerr.OffsetOutOfRange.Code, fetchOne(t, n, "b5", 46, 0).ErrorCode)
		n.AlterTopic(t, "b5", "local.retention.bytes", "1")
		awaitCold(t, n, "b5", 40)
	}
}

// B6: readers around localStart while local segments go one after the other never hear OFFSET_OUT_OF_RANGE.
func TestB6_ReadersWhileSegmentsAreFreed(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{Env: map[string]string{"TIDEMARK_FREE_DELAY": "0s"}})
	n.CreateTopic(t, "b6", 1, "segment.bytes", "16384", "local.retention.bytes", "1", "retention.ms", "-1")
	l := pour(t, n, "b6", 300)
	l.flows(time.Minute, "produce")
	end := time.Now().Add(outage(t))
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			c := n.Raw(t)
			defer c.Close()
			for time.Now().Before(end) {
				p, err := n.Partition("b6", 0)
				if err != nil {
					t.Error(err)
					return
				}
				for back := int64(-30); back <= 30; back += 6 {
					at := min(max(int64(p.LocalStart)+back, 0), int64(p.LogEnd))
					resp, err := c.Do(fetchAt("b6", 0, at, 10))
					if err != nil {
						t.Error(err)
						return
					}
					if code := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
						t.Errorf("fetch at %d, localStart %d: code %d", at, p.LocalStart, code)
					}
				}
			}
		})
	}
	readers.Wait()
	harness.Until(t, 2*time.Minute, "segments have been freed under the readers", func() error {
		if at := n.Offset(t, "b6", 0, harness.LocalStart); at <= 100 {
			return fmt.Errorf("the local log begins at %d", at)
		}
		return nil
	})
	l.end(time.Minute)
	l.verify()
}

// B12: start lies inside an object: times and offsets below it are not answered from what is still stored.
func TestB12_StartInsideAnObject(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "b12", 21)
	_, err := deleteRecords(t, n, "b12", 5)
	require.NoError(t, err)
	got, err := n.ListOffsets(t, "b12", 0, -1, 0, tenTime(4).UnixMilli(), tenTime(6).UnixMilli()-500, tenTime(12).UnixMilli(), tenTime(21).UnixMilli())
	require.NoError(t, err)
	var offsets []int64
	for _, o := range got {
		offsets = append(offsets, o.Offset)
	}
	require.Equal(t, []int64{5, 5, 6, 12, -1}, offsets)
	p := fetchOne(t, n, "b12", 4, 500)
	require.Equal(t, kerr.OffsetOutOfRange.Code, p.ErrorCode)
	require.EqualValues(t, 5, p.LogStartOffset)
	readTens(t, n, "b12", 5, 21)
}

// B16: a store that takes much longer than fetch.max.wait. Fetches are answered in time, and what they asked for is
// downloaded once.
func TestB16_SlowStore(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "b16", 101)
	stores.S3.Forget()
	silent := make(chan struct{})
	speak := sync.OnceFunc(func() { close(silent) })
	defer speak()
	stores.S3.Add(s3proxy.Rule{Match: getSegment, Delay: time.Second, Before: func() { <-silent }})
	started := time.Now()
	p := fetchOne(t, n, "b16", 0, 500)
	require.Zero(t, p.ErrorCode)
	require.Empty(t, p.RecordBatches, "a fetch is held no longer than its client allows: not until the store has answered")
	speak()
	readTens(t, n, "b16", 0, 101)
	require.LessOrEqual(t, stores.S3.Count(getSegment), 2*10+2, "one tail and one chunk an object")
	t.Logf("ten objects in %v, %d requests", time.Since(started).Round(time.Millisecond), stores.S3.Count(getSegment))
}

// B18: five cold partitions with batches far above their limits: one batch comes, not five.
func TestB18_OneOversizedBatchAFetch(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "b18", 5, "segment.bytes", "300000", "local.retention.bytes", "1", "retention.ms", "-1")
	cl := n.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for p := range int32(5) {
		for range 2 { // the second batch seals the first
			require.NoError(t, cl.ProduceSync(within(t, time.Minute), &kgo.Record{Topic: "b18", Partition: p, Value: []byte(strings.Repeat("x", 290_000))}).FirstErr())
		}
	}
	harness.Until(t, 2*time.Minute, "all are cold", func() error {
		for p := range int32(5) {
			if got := n.Offset(t, "b18", p, harness.LocalStart); got != 1 {
				return fmt.Errorf("partition %d: localStart %d", p, got)
			}
		}
		return nil
	})
	served := map[int32]bool{}
	end := time.Now().Add(2 * time.Minute)
	for round := int32(0); len(served) < 5 && time.Now().Before(end); round++ {
		req := fetchAt("b18", 0, 0, 500)
		req.MaxBytes, req.Topics[0].Partitions = 500_000, nil
		for i := range int32(5) {
			rp := kmsg.NewFetchRequestTopicPartition()
			rp.Partition, rp.PartitionMaxBytes = (round+i)%5, 10_000
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
		}
		resp, err := n.Raw(t).Do(req)
		require.NoError(t, err)
		full := 0
		for _, p := range resp.(*kmsg.FetchResponse).Topics[0].Partitions {
			require.Zero(t, p.ErrorCode)
			if len(p.RecordBatches) > 0 {
				full++
				served[p.Partition] = true
			}
		}
		require.LessOrEqual(t, full, 1, "oversized batches in one answer")
	}
	require.Len(t, served, 5, "every partition is served")
}

// B20: two requests that time out, then a burst of consumers: all reach the end, nobody is parked.
func TestB20_TwoTimeoutsThenABurst(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_COLD_READ_TIMEOUT": "3s"}})
	coldTens(t, n, "b20", 51)
	stores.S3.Add(s3proxy.Rule{Match: s3proxy.Match{Verb: http.MethodGet, Path: "/segments/"}, Hang: true, Times: 2})
	var consumers sync.WaitGroup
	for range 32 {
		consumers.Go(func() {
			got, err := checker.Read(within(t, 2*time.Minute), n.Kafka, "b20", 0, 0, 51)
			if err != nil || len(got) != 51 {
				t.Errorf("%d of 51 records: %v", len(got), err)
			}
		})
	}
	consumers.Wait()
	require.Zero(t, n.Metric("tidemark_kafka_unknown_server_errors_total"))
}
