package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
)

// A history goes into a topic that compacts, under settings that make everything happen at once: a little later
// little more than the last value of each file is in the bucket, whoever read meanwhile saw no gap and no disorder, and
// what finds nothing to do touches nothing.
func TestCompactedStream(t *testing.T) {
	t.Parallel()
	compactedStream(t, generatedStream())
}

// The same with the real stream, whose last state is known from elsewhere.
func TestCompactedStreamReal(t *testing.T) {
	t.Parallel()
	events := realStream(t)
	blobs := map[string]string{}
	for k, v := range latestOf(events) {
		_, after, _ := strings.Cut(v, `"blob":"`)
		blobs[k], _, _ = strings.Cut(after, `"`)
	}
	require.Equal(t, finalState(t), blobs, "the stream and its final state belong together")
	compactedStream(t, events)
}

func compactedStream(t *testing.T, events []event) {
	t.Run("embedded stores", func(t *testing.T) {
		t.Parallel()
		c := compactStream(t, harness.Dev(t, harness.Options{Env: devDelays}), events)
		c.load(0)
		c.settles(0)
		c.rests()
	})
	t.Run("embedded stores, killed at chance", func(t *testing.T) {
		t.Parallel()
		c := compactStream(t, harness.Dev(t, harness.Options{Env: devDelays}), events)
		c.load(kills(t))
		c.settles(2 * kills(t))
	})
	t.Run("Postgres and S3", func(t *testing.T) {
		t.Parallel()
		stores := harness.RealStores(t)
		c := compactStream(t, harness.Serve(t, stores, harness.Options{Env: devDelays}), events)
		c.load(0)
		c.settles(0)
		c.rests()
		agree(t, c.n, stores)
	})
}

// A topic that keeps everything locally looks compacted all the same: what is clean is read from the object tier.
func TestCompactedTopicIsReadFromTheTierWhereItIsClean(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{Env: devDelays})
	n.CreateTopic(t, compactedTopic, 1, "cleanup.policy", "compact", "segment.bytes", "1048576", "segment.ms", "2000",
		"min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", fmt.Sprint(tombstonesStay.Milliseconds()))
	events := generatedStream()[:30_000]
	c := &compacted{t: t, n: n, events: events, final: latestOf(events), limit: 5 * time.Minute}
	c.load(0)
	c.settles(0)
	harness.Until(t, c.limit, "nothing but the last state is left", func() error {
		got, err := c.read(2 * time.Minute)
		if err == nil && got.records != len(c.final) {
			err = fmt.Errorf("%d records of %d keys", got.records, len(c.final))
		}
		return err
	})
	require.Zero(t, n.Offset(t, compactedTopic, 0, harness.LocalStart), "the local log has it all")
	n.Kill()
	n.Start()
	got, err := c.read(2 * time.Minute)
	require.NoError(t, err)
	require.Equal(t, len(c.final), got.records, "and so it is after a start")
}

// The work is done beside the broker: by two compactors at once, of which one is killed again and again.
func TestCompactedStreamByCompactors(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{
		"TIDEMARK_FREE_DELAY": "5s", "TIDEMARK_GC_GRACE": "30s", "TIDEMARK_COMPACTION_WORKERS": "0"}})
	c := compactStream(t, n, generatedStream())
	compactor(t, stores)
	ctx, cancel := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); killer.Wait() })
	defer stop()
	killer.Go(func() {
		for ctx.Err() == nil {
			p := compactor(t, stores)
			select {
			case <-time.After(time.Duration(rand.Int64N(int64(2 * time.Second)))): // the moment of death is chance
			case <-ctx.Done():
			}
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	c.load(0)
	c.settles(0)
	stop()
	require.Zero(t, n.Metric("tidemark_compaction_objects_total"), "the broker has left it to them")
}

// compactor runs `tidemark compactor` until the test ends, or it is killed.
func compactor(t *testing.T, stores harness.Stores) *exec.Cmd {
	cmd := exec.Command(harness.Binary(t), "compactor")
	cmd.Env = append(harness.Environ(), "TIDEMARK_CATALOG_URL="+stores.CatalogURL, "TIDEMARK_OBJECT_STORE_URL="+stores.ObjectsURL)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Errorf("start a compactor: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// devDelays are those of `tidemark dev`, where the harness has shorter ones.
var devDelays = map[string]string{"TIDEMARK_FREE_DELAY": "5s", "TIDEMARK_GC_GRACE": "30s"}

// compacted is a topic that compacts, and the stream that it is given.
type compacted struct {
	t      *testing.T
	n      *harness.Node
	events []event
	final  map[string]string
	// limit is how long after the load the topic may take.
	limit time.Duration
}

const compactedTopic = "files"

// tombstonesStay is the topic's delete.retention.ms.
const tombstonesStay = 3 * time.Second

func compactStream(t *testing.T, n *harness.Node, events []event) *compacted {
	n.CreateTopic(t, compactedTopic, 1, "cleanup.policy", "compact", "segment.bytes", "1048576", "segment.ms", "2000",
		"local.retention.bytes", "1", "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", fmt.Sprint(tombstonesStay.Milliseconds()))
	return &compacted{t: t, n: n, events: events, final: latestOf(events), limit: 5 * time.Minute}
}

// load produces the stream while a consumer follows it; the broker is killed some times meanwhile.
func (c *compacted) load(deaths int) {
	c.t.Helper()
	started := time.Now()
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := c.read(5 * time.Minute); err != nil {
			c.t.Errorf("a consumer that follows: %v", err)
		}
	})
	both.Go(func() { c.produce() })
	for range deaths {
		c.dies()
	}
	both.Wait()
	c.t.Logf("%d events produced and read in %v", len(c.events), time.Since(started).Round(time.Millisecond))
}

// dies kills the broker at a moment that is chance.
func (c *compacted) dies() {
	<-time.After(time.Duration(rand.Int64N(int64(1500 * time.Millisecond))))
	c.n.Kill()
	c.n.Start()
}

func (c *compacted) produce() {
	cl := c.n.Client(c.t, kgo.DefaultProduceTopic(compactedTopic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(100<<10), kgo.ProducerLinger(5*time.Millisecond))
	next := int64(0)
	for _, e := range c.events {
		cl.Produce(context.Background(), &kgo.Record{Key: e.key, Value: e.value, Timestamp: time.UnixMilli(e.ms)}, func(r *kgo.Record, err error) {
			if err != nil || r.Offset != next {
				c.t.Errorf("produce: offset %d came as number %d, %v", r.Offset, next, err)
			}
			next++
		})
	}
	if err := cl.Flush(within(c.t, 5*time.Minute)); err != nil {
		c.t.Errorf("produce: %v", err)
	}
}

// seen is what a consumer found that read the topic from its beginning to its end.
type seen struct{ records, tombstones int }

// read consumes until the whole stream has passed. Each record must be the one that was produced under its offset,
// offsets must rise, and the state at the end must be the stream's.
func (c *compacted) read(limit time.Duration) (seen, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), limit)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.n.Kafka), kgo.FetchMaxWait(100*time.Millisecond), kgo.KeepControlRecords(),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{compactedTopic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return seen{}, err
	}
	defer cl.Close()
	var got seen
	started := time.Now()
	state, last := map[string]string{}, int64(-1)
	for last < int64(len(c.events))-1 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return got, fmt.Errorf("after offset %d: %w", last, err)
		}
		var fault error
		fetches.EachRecord(func(r *kgo.Record) {
			e := c.events[r.Offset]
			if r.Offset <= last || !bytes.Equal(r.Key, e.key) || !bytes.Equal(r.Value, e.value) || (r.Value == nil) != (e.value == nil) || r.Timestamp.UnixMilli() != e.ms {
				fault = fmt.Errorf("offset %d after %d holds %s at %v", r.Offset, last, r.Key, r.Timestamp)
			}
			last = r.Offset
			got.records++
			state[string(r.Key)] = string(r.Value)
			if r.Value == nil {
				got.tombstones++
				delete(state, string(r.Key))
			}
		})
		if fault != nil {
			return got, fault
		}
	}
	// Who reads for longer than tombstones stay may have met a record and miss the tombstone that came behind it.
	if time.Since(started) >= tombstonesStay {
		maps.DeleteFunc(state, func(key, _ string) bool { _, lives := c.final[key]; return !lives })
	}
	if !sameState(c.final, state) {
		return got, fmt.Errorf("the state after a read of %v has %d keys, the stream's has %d, or their values differ",
			time.Since(started), len(state), len(c.final))
	}
	return got, nil
}

func sameState(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

// settles waits until little more than the last state is there. Everybody who reads meanwhile reads right.
func (c *compacted) settles(deaths int) {
	c.t.Helper()
	loaded := time.Now()
	for range deaths {
		c.dies()
	}
	var got seen
	harness.Until(c.t, c.limit, "the topic is compacted", func() error {
		var err error
		got, err = c.read(2 * time.Minute)
		require.NoError(c.t, err)
		if limit := len(c.final) * 12 / 10; got.records > limit || got.tombstones > 0 {
			return fmt.Errorf("%d records (wanted at most %d), %d tombstones", got.records, limit, got.tombstones)
		}
		return nil
	})
	objects, err := c.n.Segments(compactedTopic, 0)
	require.NoError(c.t, err)
	c.t.Logf("%v after the load: %d records for %d keys in %d objects; compaction read %.1f MB and wrote %.1f MB in %.0f passes",
		time.Since(loaded).Round(time.Millisecond), got.records, len(c.final), len(objects), c.n.Metric("tidemark_compaction_read_bytes_total")/1e6,
		c.n.Metric("tidemark_compaction_written_bytes_total")/1e6, c.n.Metric("tidemark_compaction_passes_total"))
	require.EqualValues(c.t, 0, c.n.Offset(c.t, compactedTopic, 0, harness.Start))
	require.EqualValues(c.t, len(c.events), c.n.Offset(c.t, compactedTopic, 0, harness.Latest))
}

// rests makes sure that a compactor with nothing to do reads and writes nothing (A6, C12).
func (c *compacted) rests() {
	c.t.Helper()
	work := func() string {
		m, err := c.n.Metrics()
		require.NoError(c.t, err)
		return fmt.Sprint(m["tidemark_compaction_read_bytes_total"], m["tidemark_compaction_objects_total"], m["tidemark_compaction_passes_total"])
	}
	before, since := work(), time.Now()
	harness.Until(c.t, 3*time.Minute, "compaction rests", func() error {
		if now := work(); now != before {
			before, since = now, time.Now()
		}
		if time.Since(since) < 4*time.Second {
			return fmt.Errorf("work %s", before)
		}
		return nil
	})
	if _, err := c.read(2 * time.Minute); err != nil {
		c.t.Fatal(err)
	}
}

// latestOf is the state that a stream ends in.
func latestOf(events []event) map[string]string {
	state := map[string]string{}
	for _, e := range events {
		if e.value == nil {
			delete(state, string(e.key))
		} else {
			state[string(e.key)] = string(e.value)
		}
	}
	return state
}

// finalState reads the final state that comes with the real stream: the blob of each file.
func finalState(t *testing.T) map[string]string {
	root, err := harness.ModuleRoot()
	require.NoError(t, err)
	f, err := os.Open(filepath.Join(root, "..", "shared", "data", "kafka-history.final.tsv.zst"))
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	state := map[string]string{}
	for lines := bufio.NewScanner(z); lines.Scan(); {
		file, blob, ok := strings.Cut(lines.Text(), "\t")
		require.True(t, ok, lines.Text())
		state[file] = blob
	}
	return state
}
