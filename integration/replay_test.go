package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/cmd/tidemark/replay"
	"tidemark/integration/harness"
	"tidemark/record"
)

// replayTool runs `tidemark replay history` in a folder of its own.
type replayTool struct {
	t    *testing.T
	n    *harness.Node
	dir  string
	env  []string
	args []string
}

func newReplay(t *testing.T, n *harness.Node, args ...string) *replayTool {
	return &replayTool{t: t, n: n, dir: t.TempDir(), args: append([]string{"replay", "history", "--bootstrap", n.Kafka}, args...)}
}

// start begins the replay; more are flags that do not change what it copies.
func (r *replayTool) start(more ...string) (*exec.Cmd, *bytes.Buffer) {
	r.t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(harness.Binary(r.t), append(slices.Clone(r.args), more...)...)
	cmd.Dir, cmd.Stderr = r.dir, &errs
	cmd.Env = append(harness.Environ(), r.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(r.t, cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, &errs
}

// finish runs the replay to its end.
func (r *replayTool) finish(more ...string) {
	r.t.Helper()
	cmd, errs := r.start(more...)
	require.NoError(r.t, cmd.Wait(), errs)
}

// killed starts the replay and kills it in its middle, count times; progress is how far it is, of all.
func (r *replayTool) killed(count int, all int64, progress func() int64) {
	r.t.Helper()
	for i := range count {
		cmd, _ := r.start("--rate", "2MB")
		want := all * int64(i+1) / int64(2*(count+1)) // half is left at least: seconds, at that rate
		harness.Until(r.t, time.Minute, fmt.Sprintf("the replay has copied %d of %d", want, all), func() error {
			if got := progress(); got < want {
				return fmt.Errorf("it has copied %d", got)
			}
			return nil
		})
		require.NoError(r.t, cmd.Process.Kill())
		require.Error(r.t, cmd.Wait(), "it had ended before it was killed")
	}
}

// history is the topic that is copied: the stream in four partitions, most of it cold.
func history(t *testing.T, n *harness.Node, events []event) *job {
	j := &job{t: t, n: n, topic: "history", partitions: make([][]event, 4)}
	n.CreateTopic(t, j.topic, 4, "retention.ms", "-1", "segment.bytes", "1048576", "local.retention.bytes", "1", "remote.copy.max.delay.ms", "1000")
	j.produce(events)
	harness.Until(t, 2*time.Minute, "all of it is cold", func() error {
		for p, es := range j.partitions {
			if local := n.Offset(t, j.topic, int32(p), harness.LocalStart); local < int64(len(es)) {
				return fmt.Errorf("partition %d: localStart %d of %d", p, local, len(es))
			}
		}
		return nil
	})
	return j
}

// read reads whole partitions of a topic with a client of its own kind.
func readTopic(t *testing.T, n *harness.Node, topic string, partitions int32) [][]event {
	t.Helper()
	out, left := make([][]event, partitions), int64(0)
	for p := range partitions {
		left += n.Offset(t, topic, p, harness.Latest)
	}
	cl := n.Client(t, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx := within(t, 3*time.Minute)
	for left > 0 {
		fs := cl.PollFetches(ctx)
		require.NoError(t, ctx.Err())
		fs.EachRecord(func(r *kgo.Record) {
			out[r.Partition] = append(out[r.Partition], event{r.Key, r.Value, r.Timestamp.UnixMilli()})
			left--
		})
	}
	return out
}

func requireEvents(t *testing.T, want, got []event, what string) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		same := bytes.Equal(want[i].key, got[i].key) && bytes.Equal(want[i].value, got[i].value) && want[i].ms == got[i].ms &&
			(want[i].value == nil) == (got[i].value == nil)
		require.True(t, same, "%s: record %d is %q %d, should be %q %d", what, i, got[i].key, got[i].ms, want[i].key, want[i].ms)
	}
	require.Len(t, got, len(want), what)
}

// A replay that is killed again and again, and then let finish, has copied everything once, in order.
func TestReplayKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	j := history(t, n, generatedStream())
	ends := func(topic string, partitions int32) func() int64 {
		n.CreateTopic(t, topic, partitions, "retention.ms", "-1")
		return func() (sum int64) {
			for p := range partitions {
				sum += n.Offset(t, topic, p, harness.Latest)
			}
			return sum
		}
	}
	t.Run("into a topic, partition by partition", func(t *testing.T) {
		r, at := newReplay(t, n, "--to", "same"), ends("same", 4)
		r.killed(kills(t), streamLength, at)
		r.finish()
		for p, got := range readTopic(t, n, "same", 4) {
			requireEvents(t, j.partitions[p], got, fmt.Sprint("partition ", p))
		}
		r.finish()
		require.EqualValues(t, streamLength, at(), "a finished replay copies nothing more")
	})
	t.Run("into a topic, by key", func(t *testing.T) {
		r, at := newReplay(t, n, "--to", "keyed", "--by-key"), ends("keyed", 3)
		r.killed(kills(t), streamLength, at)
		r.finish()
		want, got := byKey(j.partitions), byKey(readTopic(t, n, "keyed", 3))
		require.Len(t, got, len(want))
		for k := range want {
			requireEvents(t, want[k], got[k], k)
		}
	})
	t.Run("into a file of lines", func(t *testing.T) {
		r := newReplay(t, n, "--out", "lines")
		size := fileSize(filepath.Join(r.dir, "lines"))
		r.killed(kills(t), 28e6, size)
		r.finish()
		for p, got := range readLines(t, filepath.Join(r.dir, "lines"), 4) {
			requireEvents(t, j.partitions[p], got, fmt.Sprint("partition ", p))
		}
	})
	t.Run("into files of batches", func(t *testing.T) {
		r := newReplay(t, n, "--out", "dump", "--format", "dump")
		r.killed(kills(t), 20e6, func() (sum int64) {
			found, _ := filepath.Glob(filepath.Join(r.dir, "dump", "*", "*.log"))
			for _, path := range found {
				sum += fileSize(path)()
			}
			return sum
		})
		r.finish()
		for p := range j.partitions {
			requireEvents(t, j.partitions[p], readDump(t, filepath.Join(r.dir, "dump", fmt.Sprintf("history-%d", p))), fmt.Sprint("partition ", p))
		}
	})
}

func byKey(partitions [][]event) map[string][]event {
	out := map[string][]event{}
	for _, es := range partitions {
		for _, e := range es {
			out[string(e.key)] = append(out[string(e.key)], e)
		}
	}
	return out
}

func fileSize(path string) func() int64 {
	return func() int64 {
		fi, err := os.Stat(path)
		if err != nil {
			return 0
		}
		return fi.Size()
	}
}

// readLines reads NDJSON; offsets rise in each partition.
func readLines(t *testing.T, path string, partitions int) [][]event {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	out := make([][]event, partitions)
	last := map[int32]record.Offset{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l replay.Line
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l), lines.Text())
		if before, ok := last[l.Partition]; ok {
			require.Greater(t, l.Offset, before)
		}
		last[l.Partition] = l.Offset
		key, err := replay.Bytes(l.Key, l.KeyBase64)
		require.NoError(t, err)
		value, err := replay.Bytes(l.Value, l.ValueBase64)
		require.NoError(t, err)
		out[l.Partition] = append(out[l.Partition], event{key, value, l.Timestamp})
	}
	require.NoError(t, lines.Err())
	return out
}

// readDump reads the batches of a folder.
func readDump(t *testing.T, dir string) (out []event) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	next := record.Offset(0)
	for _, path := range slices.Sorted(slices.Values(found)) {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		for len(b) > 0 {
			batch, rest, err := record.Split(b)
			require.NoError(t, err)
			require.NoError(t, record.CheckCRC(batch))
			for r, err := range record.Records(batch, nil) {
				require.NoError(t, err)
				require.Equal(t, next, r.Offset)
				next++
				out = append(out, event{bytes.Clone(r.Key), bytes.Clone(r.Value), r.Timestamp})
			}
			b = rest
		}
	}
	return out
}

// A broker that is killed under a replay costs it time, nothing else.
func TestReplayOverABrokerThatDies(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	j := history(t, n, generatedStream())
	n.CreateTopic(t, "copy", 4, "retention.ms", "-1")
	r := newReplay(t, n, "--to", "copy")
	cmd, errs := r.start("--rate", "8MB")
	for range 3 {
		before := n.Offset(t, "copy", 0, harness.Latest)
		harness.Until(t, time.Minute, "the replay copies", func() error {
			if now := n.Offset(t, "copy", 0, harness.Latest); now <= before && now < int64(len(j.partitions[0])) {
				return fmt.Errorf("it stands at %d", now)
			}
			return nil
		})
		n.Kill()
		n.Start()
	}
	require.NoError(t, cmd.Wait(), errs)
	for p, got := range readTopic(t, n, "copy", 4) {
		requireEvents(t, j.partitions[p], got, fmt.Sprint("partition ", p))
	}
}

// A year of the stream is the records with timestamps of that year, also where some go back in time.
func TestReplayByTime(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	j := history(t, n, generatedStream())
	from, until := time.Date(2016, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, strict := range []bool{false, true} {
		args := []string{"--out", "year", "--from-time", "2016-01-01", "--until-time", "2017-01-01"}
		if strict {
			args = append(args, "--strict-time")
		}
		r := newReplay(t, n, args...)
		r.finish()
		for p, got := range readLines(t, filepath.Join(r.dir, "year"), 4) {
			requireEvents(t, year(j.partitions[p], from, until, strict), got, fmt.Sprint("partition ", p, " strict ", strict))
		}
	}
}

// year picks [from, until): by timestamps, or as a consumer that seeks to both times would.
func year(es []event, from, until int64, strict bool) (out []event) {
	at := func(ms int64) int { return slices.IndexFunc(es, func(e event) bool { return e.ms >= ms }) }
	if !strict {
		return es[at(from):at(until)]
	}
	for _, e := range es {
		if e.ms >= from && e.ms < until {
			out = append(out, e)
		}
	}
	return out
}

// Catalog and bucket alone give what the broker gives, also when no broker runs, and are only read.
func TestReplayDirectEqualsThroughTheBroker(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	history(t, n, generatedStream()[:30_000])
	through := newReplay(t, n, "--out", "lines")
	through.finish()
	want := sortedLines(t, filepath.Join(through.dir, "lines"))
	require.Len(t, want, 30_000)
	for _, broker := range []string{"running", "stopped"} {
		if broker == "stopped" {
			require.Zero(t, n.Term())
		}
		before := objects(t, stores)
		direct := newReplay(t, n, "--out", "lines", "--direct")
		direct.env = []string{"TIDEMARK_CATALOG_URL=" + stores.CatalogURL, "TIDEMARK_OBJECT_STORE_URL=" + stores.ObjectsURL}
		direct.finish()
		require.Equal(t, want, sortedLines(t, filepath.Join(direct.dir, "lines")), broker)
		require.Equal(t, before, objects(t, stores), broker)
	}
}

func sortedLines(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return slices.Sorted(strings.Lines(string(b)))
}

func objects(t *testing.T, stores harness.Stores) (keys []string) {
	t.Helper()
	page, err := stores.Bucket.List(context.Background(), "segments/", "", 10_000)
	require.NoError(t, err)
	for _, o := range page {
		keys = append(keys, o.Key)
	}
	return keys
}
