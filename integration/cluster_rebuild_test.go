package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
	"tidemark/internal/testenv"
)

// serveCluster starts brokers 1 to count with the same stores.
func serveCluster(t *testing.T, stores harness.Stores, count int, env map[string]string) []*harness.Node {
	t.Helper()
	nodes := make([]*harness.Node, count)
	for i := range nodes {
		own := map[string]string{"TIDEMARK_BROKER_ID": strconv.Itoa(i + 1), "TIDEMARK_LOG_LEVEL": "info"}
		for k, v := range env {
			own[k] = v
		}
		nodes[i] = harness.Serve(t, stores, harness.Options{Down: true, Env: own})
		nodes[i].Launch()
	}
	for _, n := range nodes {
		n.AwaitReady()
	}
	return nodes
}

// rebuiltWorld is a cluster with the stream in two topics: kept whole, and compacted.
type rebuiltWorld struct {
	t      *testing.T
	nodes  []*harness.Node
	events map[string][][]event // what was acknowledged, by topic, partition and offset
}

const (
	keptTopic, stateTopic = "kept", "state"
	rebuiltGroup          = "readers"
)

// H21 with the real stream and a cluster: three brokers write it to a topic that keeps everything and to one that compaction
// is at work on; then all are killed, their disks and the catalog are lost. `tidemark tier rebuild` brings back topics, configs,
// offsets of groups and the rows of objects; killed half-way and begun again it makes the same catalog. The operator accepts
// that nobody is in sync, and all that was tiered is read back: every record, and of the compacted topic the same table.
func TestH21_AClusterIsRebuiltWithTheRealStream(t *testing.T) {
	events := realStream(t)
	stores := harness.RealStores(t)
	w := &rebuiltWorld{t: t, events: map[string][][]event{}}
	w.nodes = serveCluster(t, stores, 3, map[string]string{"TIDEMARK_CHECKPOINT_INTERVAL": "2s", "TIDEMARK_UPLOAD_CONCURRENCY": "16"})
	w.create(keptTopic, 4, "cleanup.policy", "delete", "retention.ms", "-1", "local.retention.bytes", "1")
	w.create(stateTopic, 4, "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.3", "local.retention.bytes", "1")
	for _, topic := range []string{keptTopic, stateTopic} {
		w.produce(topic, events)
	}
	w.awaitTiered(stores)
	w.commit()
	for _, n := range w.nodes {
		n.Kill()
		n.Wipe()
	}
	lost, tiered := catalogRows(t, stores.CatalogURL), ends(t, stores.CatalogURL)

	whole := testenv.Postgres(t)
	took, result := w.rebuild(stores, whole, 0)
	t.Logf("%d objects (%d from the checkpoint, %d from footers) in %v: %v for 1,000", result.Segments, result.FromCheckpoint, result.FromObjects,
		took.Round(time.Millisecond), (took * 1000 / time.Duration(result.Segments)).Round(time.Millisecond))
	require.Equal(t, 2, result.Topics)
	for _, u := range result.Undecided {
		require.Contains(t, u, "is known from objects only", "nothing but what came after the checkpoint is undecided")
	}
	require.Zero(t, result.Lost)

	// One that is killed when it has committed all, or has ended, shows nothing: then another one, sooner.
	again := testenv.Postgres(t)
	for after := took / 2; ; after /= 2 {
		if w.rebuild(stores, again, after); holdsNothing(t, again) {
			break
		}
		again = testenv.Postgres(t)
	}
	_, result = w.rebuild(stores, again, 0)
	require.Equal(t, 2, result.Topics)
	require.Equal(t, catalogRows(t, whole), catalogRows(t, again), "killed half-way and begun again: the same catalog")
	for _, table := range []string{"topics", "topic_configs", "group_offsets"} {
		require.Equal(t, lost[table], catalogRows(t, again)[table], table)
	}

	// An object that had been put and not yet published is taken too, and compaction goes on from there.
	reach := ends(t, again)
	for topic, parts := range tiered {
		for p, end := range parts {
			require.GreaterOrEqual(t, reach[topic][p], end, "%s-%d", topic, p)
		}
	}
	for _, n := range w.nodes {
		n.Setenv("TIDEMARK_CATALOG_URL", again)
		n.Launch()
	}
	for _, topic := range []string{keptTopic, stateTopic} {
		harness.Until(t, time.Minute, "the operator accepts the loss of "+topic, func() error {
			if out, diag, code := w.nodes[0].Tool("topic", "elect", topic, "--accept-loss"); code != 0 {
				return fmt.Errorf("%s%s", out, diag)
			}
			return nil
		})
	}
	for _, n := range w.nodes {
		n.AwaitReady()
	}
	w.verify(reach)
}

func (w *rebuiltWorld) create(topic string, partitions int32, configs ...string) {
	w.t.Helper()
	set := map[string]*string{}
	for i, all := 0, append(configs, "segment.bytes", "65536"); i < len(all); i += 2 {
		set[all[i]] = &all[i+1]
	}
	r, err := kadm.NewClient(w.nodes[0].Client(w.t)).CreateTopic(within(w.t, time.Minute), partitions, 2, set, topic)
	require.NoError(w.t, err)
	require.NoError(w.t, r.Err)
	w.events[topic] = make([][]event, partitions)
}

func (w *rebuiltWorld) produce(topic string, events []event) {
	cl := w.nodes[0].Client(w.t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(30<<10), kgo.ProducerLinger(5*time.Millisecond),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.UnknownTopicRetries(-1)) // a broker without processor time hears of the topic late
	var mu sync.Mutex
	for _, e := range events {
		cl.Produce(context.Background(), &kgo.Record{Key: e.key, Value: e.value, Timestamp: time.UnixMilli(e.ms)}, func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			part := w.events[topic][max(r.Partition, 0)]
			if err != nil || int64(len(part)) != r.Offset {
				w.t.Errorf("%s-%d: offset %d came as number %d: %v", topic, r.Partition, r.Offset, len(part), err)
				return
			}
			w.events[topic][r.Partition] = append(part, e)
		})
	}
	require.NoError(w.t, cl.Flush(within(w.t, 5*time.Minute)))
}

// awaitTiered waits until nearly everything is tiered and compaction has begun to replace objects.
func (w *rebuiltWorld) awaitTiered(stores harness.Stores) {
	db := database(w.t, stores.CatalogURL)
	harness.Until(w.t, 5*time.Minute, "the stream is tiered and compaction is at work", func() error {
		var tiered, swapped int64
		if err := db.QueryRow(w.t.Context(), `SELECT (SELECT sum(tiered) FROM partitions), (SELECT count(*) FROM segments WHERE generation > 0)`).Scan(&tiered, &swapped); err != nil {
			return err
		}
		if tiered < 2*streamLength*95/100 || swapped == 0 {
			return fmt.Errorf("%d records of %d are tiered, %d objects are compacted ones", tiered, 2*streamLength, swapped)
		}
		return nil
	})
}

// commit commits offsets and waits for a checkpoint that has them.
func (w *rebuiltWorld) commit() {
	offsets := make(kadm.Offsets)
	for p := range w.events[keptTopic] {
		offsets.AddOffset(keptTopic, int32(p), int64(1000+p), -1)
	}
	require.NoError(w.t, kadm.NewClient(w.nodes[1].Client(w.t)).CommitAllOffsets(within(w.t, time.Minute), rebuiltGroup, offsets))
	written := func() (sum float64) {
		for _, n := range w.nodes {
			sum += n.Metric("tidemark_checkpoints_total")
		}
		return sum
	}
	before := written()
	harness.Until(w.t, time.Minute, "a checkpoint has the offsets", func() error {
		if now := written(); now < before+2 { // one may have been under way
			return fmt.Errorf("%v, were %v", now, before)
		}
		return nil
	})
}

func database(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// ends are those of the object tier in a catalog, by topic and partition.
func ends(t *testing.T, url string) map[string][]int64 {
	t.Helper()
	rows, err := database(t, url).Query(t.Context(), `SELECT name, tiered FROM partitions JOIN topics ON topics.id = topic ORDER BY name, partition`)
	require.NoError(t, err)
	defer rows.Close()
	out := map[string][]int64{}
	for rows.Next() {
		var topic string
		var end int64
		require.NoError(t, rows.Scan(&topic, &end))
		out[topic] = append(out[topic], end)
	}
	require.NoError(t, rows.Err())
	return out
}

// catalogRows is what a catalog says of topics, objects and groups, without numbers that count its own changes.
func catalogRows(t *testing.T, url string) map[string]string {
	t.Helper()
	db, out := database(t, url), map[string]string{}
	for table, query := range map[string]string{
		"topics":        `SELECT id, name, partitions FROM topics WHERE NOT deleted`,
		"topic_configs": `SELECT topic, name, value FROM topic_configs`,
		"partitions":    `SELECT topic, partition, start, tiered, tier_bytes, replicas FROM partitions`,
		"segments": `SELECT topic, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key, tail_position, data_bytes,
			encode(sha256, 'hex'), leader_epoch, generation, clean_since FROM segments`,
		"group_offsets": `SELECT group_id, topic, partition, committed, leader_epoch, metadata FROM group_offsets`,
	} {
		var rows []byte
		require.NoError(t, db.QueryRow(t.Context(), `SELECT coalesce(json_agg(r ORDER BY r::text), '[]') FROM (`+query+`) r`).Scan(&rows), table)
		out[table] = string(rows)
	}
	return out
}

// holdsNothing says whether a catalog has no topics, be it that it has no tables yet.
func holdsNothing(t *testing.T, url string) bool {
	t.Helper()
	db := database(t, url)
	var tables bool
	require.NoError(t, db.QueryRow(t.Context(), `SELECT to_regclass('topics') IS NOT NULL`).Scan(&tables))
	topics := 0
	if tables {
		require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM topics`).Scan(&topics))
	}
	return topics == 0
}

// rebuilding is what `tier rebuild --json` prints of itself.
type rebuilding struct {
	Topics                                      int
	Segments, FromCheckpoint, FromObjects, Lost int64
	Undecided                                   []string
}

// rebuild rebuilds the catalog in a database, or begins to and is killed after a while.
func (w *rebuiltWorld) rebuild(stores harness.Stores, url string, killed time.Duration) (took time.Duration, result rebuilding) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(w.t), "tier", "rebuild", "--json")
	others := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	cmd.Env = append(others, "TIDEMARK_CATALOG_URL="+url, "TIDEMARK_OBJECT_STORE_URL="+stores.ObjectsURL)
	var out, diag bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diag
	began := time.Now()
	require.NoError(w.t, cmd.Start())
	if killed > 0 {
		timer := time.AfterFunc(killed, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
		return time.Since(began), result
	}
	require.NoError(w.t, cmd.Wait(), diag.String())
	took = time.Since(began)
	require.NoError(w.t, json.Unmarshal(out.Bytes(), &result), out.String())
	return took, result
}

// verify reads both topics and the group from the brokers.
func (w *rebuiltWorld) verify(reach map[string][]int64) {
	w.t.Helper()
	for p, end := range reach[keptTopic] {
		require.Len(w.t, w.read(keptTopic, int32(p), end), int(end), "%s-%d", keptTopic, p)
	}
	kept, keys := 0, 0
	for p, end := range reach[stateTopic] {
		all := make([]int64, end)
		for o := range all {
			all[o] = int64(o)
		}
		got := w.read(stateTopic, int32(p), end)
		want := w.table(stateTopic, int32(p), all)
		require.Equal(w.t, want, w.table(stateTopic, int32(p), got), "the latest record of each key, and none of a deleted one: %s-%d", stateTopic, p)
		kept, keys = kept+len(got), keys+len(want)
	}
	w.t.Logf("%d records of the compacted topic, of %d keys", kept, keys)
	fetched, err := kadm.NewClient(w.nodes[2].Client(w.t)).FetchOffsets(within(w.t, time.Minute), rebuiltGroup)
	require.NoError(w.t, err)
	for p := range w.events[keptTopic] {
		o, ok := fetched.Lookup(keptTopic, int32(p))
		require.True(w.t, ok)
		require.EqualValues(w.t, 1000+p, o.At)
	}
}

// table is the offset of the latest record of each key that records at these offsets leave behind.
func (w *rebuiltWorld) table(topic string, partition int32, offsets []int64) map[string]int64 {
	out := map[string]int64{}
	for _, o := range offsets {
		if e := w.events[topic][partition][o]; e.value == nil {
			delete(out, string(e.key))
		} else {
			out[string(e.key)] = o
		}
	}
	return out
}

// read reads a partition to its end, compares each record with what was produced at its offset and gives the offsets.
func (w *rebuiltWorld) read(topic string, partition int32, end int64) (got []int64) {
	w.t.Helper()
	cl := w.nodes[int(partition)%len(w.nodes)].Client(w.t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}}))
	ctx := within(w.t, 2*time.Minute)
	for next := int64(0); next < end; {
		fs := cl.PollFetches(ctx)
		require.NoError(w.t, fs.Err0(), "%s-%d at %d of %d", topic, partition, next, end)
		fs.EachPartition(func(p kgo.FetchTopicPartition) {
			require.NoError(w.t, p.Err)
		})
		fs.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			require.LessOrEqual(w.t, next, end, "%s-%d: nothing is behind the tier's end", topic, partition)
			want := w.events[topic][partition][r.Offset]
			if got = append(got, r.Offset); !bytes.Equal(want.key, r.Key) || !bytes.Equal(want.value, r.Value) || want.ms != r.Timestamp.UnixMilli() {
				require.Fail(w.t, "another record", "%s-%d at %d", topic, partition, r.Offset)
			}
		})
	}
	return got
}
