package integration

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
)

// The main job: fourteen years of events go into a topic that keeps them for ever and holds one MiB of them locally;
// consumers rewind over both tiers by offset and by time, whatever happens to the process, its cache or its disk.
func TestMainJob(t *testing.T) {
	t.Parallel()
	events := generatedStream()
	t.Run("embedded stores, one partition", func(t *testing.T) { embeddedJob(t, events, 1) })
	t.Run("Postgres and S3, eight partitions", func(t *testing.T) { servedJob(t, harness.RealStores, events, 8) })
	t.Run("Postgres and MinIO's driver, one partition", func(t *testing.T) { servedJob(t, byMinIO, events, 1) })
}

// The same with the real stream, in all four combinations.
func TestMainJobWithTheRealStream(t *testing.T) {
	t.Parallel()
	events := realStream(t)
	for _, partitions := range []int32{1, 8} {
		t.Run(fmt.Sprintf("embedded stores, %d partitions", partitions), func(t *testing.T) { embeddedJob(t, events, partitions) })
		t.Run(fmt.Sprintf("Postgres and S3, %d partitions", partitions), func(t *testing.T) { servedJob(t, harness.RealStores, events, partitions) })
	}
}

func embeddedJob(t *testing.T, events []event, partitions int32) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	j := begin(t, n, events, partitions)
	j.rewind("as produced")
	n.Kill()
	n.Start()
	j.rewind("after SIGKILL")
	require.Zero(t, n.Term())
	n.DropCache()
	n.Start()
	j.rewind("without its cache")
}

func byMinIO(t testing.TB) harness.Stores { return harness.RealStores(t).ByMinIO() }

func servedJob(t *testing.T, stores func(testing.TB) harness.Stores, events []event, partitions int32) {
	t.Parallel()
	n := harness.Serve(t, stores(t), harness.Options{})
	j := begin(t, n, events, partitions)
	j.rewind("as produced")
	n.Kill()
	n.DropCache()
	n.Start()
	j.rewind("after SIGKILL and without its cache")
	j.loseDisk()
}

// job is a topic with the stream in it.
type job struct {
	t          *testing.T
	n          *harness.Node
	topic      string
	partitions [][]event // by partition and offset
}

// begin produces the stream and waits until the local disk holds no more than it should.
func begin(t *testing.T, n *harness.Node, events []event, partitions int32) *job {
	j := &job{t: t, n: n, topic: "history", partitions: make([][]event, partitions)}
	n.CreateTopic(t, j.topic, partitions, "retention.ms", "-1", "segment.bytes", "1048576", "local.retention.bytes", "1048576")
	started := time.Now()
	j.produce(events)
	t.Logf("%d events in %v", len(events), time.Since(started).Round(time.Millisecond))
	harness.Until(t, 5*time.Minute, "the local log is short and all before it is tiered", j.freed)
	t.Logf("freed %v after the first event", time.Since(started).Round(time.Millisecond))
	return j
}

func (j *job) produce(events []event) {
	cl := j.n.Client(j.t, kgo.DefaultProduceTopic(j.topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(100<<10), kgo.ProducerLinger(5*time.Millisecond), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	var mu sync.Mutex
	total := 0
	for _, e := range events {
		cl.Produce(context.Background(), &kgo.Record{Key: e.key, Value: e.value, Timestamp: time.UnixMilli(e.ms)}, func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				j.t.Errorf("produce: %v", err)
				return
			}
			if int64(len(j.partitions[r.Partition])) != r.Offset {
				j.t.Errorf("partition %d: offset %d came as number %d", r.Partition, r.Offset, len(j.partitions[r.Partition]))
			}
			j.partitions[r.Partition] = append(j.partitions[r.Partition], e)
			total++
		})
	}
	require.NoError(j.t, cl.Flush(within(j.t, 5*time.Minute)))
	require.Equal(j.t, len(events), total)
}

// freed says what is still missing: one MiB at most on disk, besides what an active segment needs, and all of the rest
// tiered.
func (j *job) freed() error {
	for p, events := range j.partitions {
		local, tiered := j.n.Offset(j.t, j.topic, int32(p), harness.LocalStart), j.n.Offset(j.t, j.topic, int32(p), harness.LatestTiered)
		least := int64(80_000)
		if len(j.partitions) > 1 {
			least = int64(len(events)) / 2
		}
		if local <= least || tiered < local-1 {
			return fmt.Errorf("partition %d: localStart %d (wanted above %d), last tiered offset %d", p, local, least, tiered)
		}
	}
	return nil
}

// rewind reads everything from the beginning and looks up times.
func (j *job) rewind(when string) {
	j.t.Helper()
	started := time.Now()
	for p := range j.partitions {
		require.EqualValues(j.t, 0, j.n.Offset(j.t, j.topic, int32(p), harness.Start), when)
		require.EqualValues(j.t, len(j.partitions[p]), j.n.Offset(j.t, j.topic, int32(p), harness.Latest), when)
		require.NoError(j.t, j.read(p, int64(len(j.partitions[p]))), when)
	}
	j.t.Logf("%s: all read in %v", when, time.Since(started).Round(time.Millisecond))
	// A segment's files go a moment after it has left the log: a process that is killed between finds it again.
	harness.Until(j.t, 5*time.Minute, "the local log is short "+when, j.freed)
	for p := range j.partitions {
		require.NoError(j.t, j.times(p, int64(len(j.partitions[p]))), when)
	}
}

// read compares the events of [0, end) of a partition, byte for byte and in order.
func (j *job) read(p int, end int64) error {
	got, err := checker.Read(within(j.t, 5*time.Minute), j.n.Kafka, j.topic, int32(p), 0, end)
	if err != nil {
		return fmt.Errorf("partition %d: %d of %d read: %w", p, len(got), end, err)
	}
	if int64(len(got)) != end {
		return fmt.Errorf("partition %d: read %d events of %d", p, len(got), end)
	}
	for i, r := range got {
		e := j.partitions[p][i]
		if r.Offset != int64(i) || !bytes.Equal(r.Key, e.key) || !bytes.Equal(r.Value, e.value) || (r.Value == nil) != (e.value == nil) ||
			r.Timestamp.UnixMilli() != e.ms {
			return fmt.Errorf("partition %d: event %d came as offset %d, %q %q at %v", p, i, r.Offset, r.Key, r.Value, r.Timestamp)
		}
	}
	return nil
}

// times looks up 100 instants, each year's first among them; what is expected comes from a walk over the events.
func (j *job) times(p int, end int64) error {
	events := j.partitions[p][:end]
	rng := rand.New(rand.NewPCG(uint64(p), 100))
	var at []int64
	for year := 2011; year <= 2025; year++ {
		at = append(at, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	}
	for len(at) < 100 {
		at = append(at, events[rng.IntN(len(events))].ms+int64(rng.IntN(3)-1))
	}
	got, err := j.n.ListOffsets(j.t, j.topic, int32(p), -1, at...)
	if err != nil {
		return err
	}
	for i, ts := range at {
		want := harness.OffsetAt{Offset: -1, Timestamp: -1}
		for offset, e := range events {
			if e.ms >= ts {
				want.Offset, want.Timestamp = int64(offset), e.ms
				break
			}
		}
		if got[i].Offset != want.Offset || got[i].Timestamp != want.Timestamp {
			return fmt.Errorf("partition %d: the first event at or after %v is at %d (%d), got %d (%d)", p, time.UnixMilli(ts).UTC(),
				want.Offset, want.Timestamp, got[i].Offset, got[i].Timestamp)
		}
	}
	return nil
}

// loseDisk empties the data folder: the broker leads again by itself, has all that was tiered, and goes on from there.
func (j *job) loseDisk() {
	tiered := make([]int64, len(j.partitions))
	for p := range tiered {
		tiered[p] = j.n.Offset(j.t, j.topic, int32(p), harness.LatestTiered) + 1
	}
	j.n.Kill()
	j.n.Wipe()
	j.n.Start()
	for p, before := range tiered {
		end := j.n.Offset(j.t, j.topic, int32(p), harness.LatestTiered) + 1
		require.GreaterOrEqual(j.t, end, before, "partition %d: an upload may have ended before the kill", p)
		tiered[p] = end
		require.EqualValues(j.t, 0, j.n.Offset(j.t, j.topic, int32(p), harness.Start))
		require.Equal(j.t, end, j.n.Offset(j.t, j.topic, int32(p), harness.Latest), "partition %d", p)
		require.NoError(j.t, j.read(p, end))
		require.NoError(j.t, j.times(p, end))
	}
	cl := j.n.Client(j.t)
	for p, end := range tiered {
		r, err := cl.ProduceSync(within(j.t, time.Minute), &kgo.Record{Topic: j.topic, Partition: int32(p), Value: []byte("after")}).First()
		require.NoError(j.t, err)
		if len(tiered) == 1 {
			require.Equal(j.t, end, r.Offset)
		}
	}
}
