package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// putSegment and getSegment are what the faults are about; the broker's own cluster.json stays reachable.
var (
	putSegment = s3proxy.Match{Verb: http.MethodPut, Path: `/segments/`}
	getSegment = s3proxy.Match{Verb: http.MethodGet, Path: `/segments/`}
)

// A bucket that fails in one way or another for a while: produce and hot fetch do not notice, nothing that is not
// tiered is freed, and afterwards everything catches up.
func TestBucketFailsWhileProducing(t *testing.T) {
	t.Parallel()
	faults := map[string][]s3proxy.Rule{
		"errors":     {{Match: putSegment, Status: 500, Code: "InternalError"}},
		"slow down":  {{Status: 503, Code: "SlowDown", Header: http.Header{"Retry-After": {"1"}}}},
		"hangs":      {{Match: putSegment, Hang: true}},
		"drops":      {{Drop: true}},
		"lost reply": {{Match: putSegment, LoseReply: true}},
		"refuses":    {{Match: putSegment, Status: 403, Code: "AccessDenied"}},
	}
	for name, rules := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bucketFails(t, rules)
		})
	}
}

func bucketFails(t *testing.T, rules []s3proxy.Rule) {
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "faults", 2, small...)
	l := pour(t, n, "faults", 1000)
	l.flows(time.Minute, "produce before the fault")
	drained(t, n, "faults")
	for _, r := range rules {
		stores.S3.Add(r)
	}
	before := tieredOf(t, n, "faults")
	harness.Holds(t, outage(t)/2, "hot traffic and local data while the bucket fails", func() error { return untieredIsLocal(n, "faults") })
	l.flows(time.Minute, "produce while the bucket fails")
	hotRead(t, n, "faults")
	stores.S3.Clear()
	harness.Until(t, 2*time.Minute, "uploads catch up", func() error {
		after := tieredOf(t, n, "faults")
		for p := range before {
			if after[p] <= before[p] {
				return fmt.Errorf("partition %d: tiered is still %d", p, after[p])
			}
		}
		return nil
	})
	l.end(time.Minute)
	drained(t, n, "faults")
	l.verify()
	agree(t, n, stores)
}

// untieredIsLocal says if a record that is not tiered is no longer on disk (R5).
func untieredIsLocal(n *harness.Node, topic string) error {
	tier, err := n.Tier(topic)
	if err != nil {
		return err
	}
	for _, p := range tier.Partitions {
		if p.LocalStart > p.Tiered {
			return fmt.Errorf("partition %d: localStart %d is above tiered %d", p.Partition, p.LocalStart, p.Tiered)
		}
	}
	return nil
}

func tieredOf(t *testing.T, n *harness.Node, topic string) (out []int64) {
	tier, err := n.Tier(topic)
	require.NoError(t, err)
	for _, p := range tier.Partitions {
		out = append(out, int64(p.Tiered))
	}
	return out
}

// hotRead reads the last records of every partition, which are on disk.
func hotRead(t *testing.T, n *harness.Node, topic string) {
	t.Helper()
	tier, err := n.Tier(topic)
	require.NoError(t, err)
	for _, p := range tier.Partitions {
		end := int64(p.HighWatermark)
		from := max(int64(p.LocalStart), end-20)
		got, err := checker.Read(within(t, time.Minute), n.Kafka, topic, p.Partition, from, end)
		require.NoError(t, err)
		require.Len(t, got, int(end-from))
	}
}

// Postgres is away: produce and hot fetch go on, nothing that the catalog does not show as tiered is freed, nothing
// restarts, and afterwards everything catches up.
func TestK3_PostgresIsAwayWhileProducing(t *testing.T) {
	t.Parallel()
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		stores := harness.OwnStores(t)
		postgresAway(t, stores, func() { stores.Postgres.Stop(t) }, func() { stores.Postgres.Start(t) })
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		stores := harness.RealStores(t)
		postgresAway(t, stores, stores.PG.Freeze, stores.PG.Thaw)
	})
}

func postgresAway(t *testing.T, stores harness.Stores, away, back func()) {
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "away", 2, small...)
	l := pour(t, n, "away", 1000)
	l.flows(time.Minute, "produce before the outage")
	drained(t, n, "away")
	pid := n.Pid()
	away()
	gone := time.Now()
	for time.Since(gone) < outage(t) {
		l.flows(time.Minute, "produce without Postgres")
		lastRecords(t, n, "away")
	}
	harness.Until(t, 2*time.Minute, "readyz names what is wrong", func() error {
		status, body, err := n.Get("/readyz")
		if err != nil {
			return err
		}
		require.Equal(t, http.StatusOK, status, body)
		if !strings.Contains(body, "warning") {
			return errors.New(body)
		}
		return nil
	})
	back()
	before := tieredOf(t, n, "away")
	harness.Until(t, 2*time.Minute, "uploads go on", func() error {
		after := tieredOf(t, n, "away")
		for p := range before {
			if after[p] <= before[p] {
				return fmt.Errorf("partition %d: tiered is still %d", p, after[p])
			}
		}
		return nil
	})
	l.end(time.Minute)
	drained(t, n, "away")
	l.verify()
	agree(t, n, stores)
	require.Equal(t, pid, n.Pid())
	require.True(t, n.Alive())
}

// lastRecords reads one record before the high watermark of each partition through Kafka alone.
func lastRecords(t *testing.T, n *harness.Node, topic string) {
	t.Helper()
	for p := range int32(2) {
		end := n.Offset(t, topic, p, harness.Latest)
		got, err := checker.Read(within(t, time.Minute), n.Kafka, topic, p, end-1, end)
		require.NoError(t, err)
		require.Len(t, got, 1)
	}
}

// Cold reads while the bucket fails are answered with an error that clients retry, never with other data, and go on
// by themselves.
func TestColdReadsWhileTheBucketFails(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_COLD_READ_TIMEOUT": "3s"}})
	n.CreateTopic(t, "cold", 1, small...)
	l := pour(t, n, "cold", 1000)
	harness.Until(t, 2*time.Minute, "a part is cold", func() error {
		if p, err := n.Partition("cold", 0); err != nil || p.LocalStart < 500 {
			return errors.Join(err, fmt.Errorf("localStart %d", p.LocalStart))
		}
		return nil
	})
	l.end(time.Minute)
	end := n.Offset(t, "cold", 0, harness.Latest)
	faults := map[string]s3proxy.Rule{
		"errors": {Match: getSegment, Status: 500, Code: "InternalError"},
		"hangs":  {Match: getSegment, Hang: true},
		"cut":    {Match: getSegment, CutBody: 100},
		"short":  {Match: getSegment, CutChunked: 100},
		"503":    {Match: getSegment, Status: 503, Code: "SlowDown"},
		"drops":  {Match: getSegment, Drop: true},
	}
	for name, rule := range faults {
		t.Run(name, func(t *testing.T) {
			n.Kill()
			n.DropCache()
			n.Start()
			awaitCold(t, n, "cold", 500) // a kill may have left files that were about to go
			stores.S3.Add(rule)
			defer stores.S3.Clear()
			read := make(chan error, 1)
			go func() {
				got, err := checker.Read(within(t, 2*time.Minute), n.Kafka, "cold", 0, 0, end)
				if err == nil && int64(len(got)) != end {
					err = fmt.Errorf("%d records of %d", len(got), end)
				}
				read <- err
			}()
			code, records := fetchCode(t, n, "cold", 0, 0)
			require.Zero(t, records)
			require.Contains(t, []int16{0, 56}, code, "nothing, or KAFKA_STORAGE_ERROR (R16)")
			select {
			case err := <-read:
				require.Fail(t, "the reader ended while the bucket failed", "%v", err)
			default:
			}
			stores.S3.Clear()
			require.NoError(t, <-read)
			l.verify()
		})
	}
}
