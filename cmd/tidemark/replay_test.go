package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/cmd/tidemark/replay"
	"tidemark/record"
)

func TestReplayRefusesWhatCannotBeMeant(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		says string
	}{
		{"no target", []string{"a"}, "say where to copy to"},
		{"two targets", []string{"a", "--to", "b", "--out", "c"}, "a replay has one target"},
		{"a file in no folder", []string{"a", "--out", "no/such/folder/f"}, "make the folder first"},
		{"itself", []string{"a", "--to", "a"}, "cannot be copied to itself"},
		{"no such format", []string{"a", "--out", "f", "--format", "csv"}, "ndjson or dump"},
		{"a format of a topic", []string{"a", "--to", "b", "--format", "dump"}, "--format belongs to --out"},
		{"by key into a file", []string{"a", "--out", "f", "--by-key"}, "belong to --to"},
		{"filtered batches", []string{"a", "--out", "f", "--format", "dump", "--key", "k"}, "copies whole batches"},
		{"batches to standard output", []string{"a", "--out", "-", "--format", "dump"}, "writes a folder"},
		{"a checkpoint of standard output", []string{"a", "--out", "-", "--checkpoint", "c"}, "cannot be gone on with"},
		{"a bad list", []string{"a", "--out", "-", "--partitions", "3-1"}, "is not a list such as 0,4-7"},
		{"a negative offset", []string{"a", "--out", "-", "--from-offset", "-3"}, "no negative numbers"},
		{"offsets the wrong way round", []string{"a", "--out", "-", "--from-offset", "5", "--until-offset", "2"}, "lies behind"},
		{"times the wrong way round", []string{"a", "--out", "-", "--from-time", "2024-01-02", "--until-time", "2024-01-01"}, "does not lie before"},
		{"both ends twice", []string{"a", "--out", "-", "--from-time", "2024-01-02", "--from-offset", "1"}, "not both"},
		{"no time", []string{"a", "--out", "-", "--from-time", "noon"}, "is not a time"},
		{"strictness without a time", []string{"a", "--out", "-", "--strict-time"}, "needs --from-time"},
		{"a bad rate", []string{"a", "--out", "-", "--rate", "fast"}, "is not a size"},
		{"a bad expression", []string{"a", "--out", "-", "--key-regexp", "("}, "--key-regexp"},
		{"a header without a name", []string{"a", "--out", "-", "--header", "=x"}, "is not NAME"},
		{"no partitions at once", []string{"a", "--out", "-", "--parallel", "0"}, "at least 1"},
		{"no stores", []string{"a", "--out", "-", "--direct"}, "set TIDEMARK_CATALOG_URL"},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, out, errs := call(t, nil, append([]string{"replay"}, row.args...)...)
			require.Equal(t, exitUsage, code, errs)
			require.Contains(t, errs, row.says)
			require.Empty(t, out)
		})
	}
	code, _, errs := call(t, []string{"TIDEMARK_CATALOG_URL=sqlite:///x/y.db", "TIDEMARK_OBJECT_STORE_URL=file:///x"}, "replay", "a", "--out", "-", "--direct")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "needs a catalog in Postgres")
}

func TestTimesOfReplay(t *testing.T) {
	now := time.Date(2024, 5, 3, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                          {},
		"2024-05-01":                time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC),
		"2024-05-01T12:30:00+02:00": time.Date(2024, 5, 1, 10, 30, 0, 0, time.UTC),
		"1714557600000":             time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC),
		"48h":                       time.Date(2024, 5, 1, 10, 0, 0, 0, time.UTC),
	} {
		got, err := parseTime("--from-time", text, now)
		require.NoError(t, err)
		require.True(t, want.Equal(got), "%s: %v", text, got)
	}
}

// source is a topic of two partitions on a dev broker, with keys, headers, tombstones and times.
type source struct {
	devBroker
	cl *kgo.Client
}

func startSource(t *testing.T) source {
	t.Helper()
	d := startDev(t, t.TempDir())
	code, _, errs := call(t, nil, "topic", "create", "src", "--partitions", "2", "--config", "retention.ms=-1", "--bootstrap", d.Kafka)
	require.Equal(t, exitDone, code, errs)
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.Kafka), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic("src"))
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	for i := range 1000 {
		r := &kgo.Record{
			Partition: int32(i % 2), Key: fmt.Appendf(nil, "k%d", i%10), Value: fmt.Appendf(nil, "<v%d>", i),
			Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i)*1000),
		}
		switch {
		case i%7 == 0:
			r.Value = nil
		case i%11 == 0:
			r.Value = []byte{0xff, 0, byte(i)}
		}
		if i%3 == 0 {
			r.Headers = []kgo.RecordHeader{{Key: "level", Value: []byte("error")}, {Key: "null"}}
		}
		if i == 13 {
			r.Key = nil
		}
		cl.Produce(t.Context(), r, nil)
		if i%100 == 99 {
			require.NoError(t, cl.Flush(t.Context()))
		}
	}
	return source{d, cl}
}

// replay runs `tidemark replay src` in a folder of its own for checkpoints.
func (s source) replay(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return call(t, nil, append([]string{"replay", "src", "--bootstrap", s.Kafka}, args...)...)
}

// content reads a topic: by partition, a text for each record.
func (s source) content(t *testing.T, topic string) map[int32][]string {
	t.Helper()
	code, out, errs := call(t, nil, "replay", topic, "--bootstrap", s.Kafka, "--out", "-")
	require.Equal(t, exitDone, code, errs)
	all := map[int32][]string{}
	for l := range strings.Lines(out) {
		var r replay.Line
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		r.Offset = 0
		b, err := json.Marshal(r)
		require.NoError(t, err)
		all[r.Partition] = append(all[r.Partition], string(b))
	}
	return all
}

func TestReplayToATopicKeepsAllButOffsets(t *testing.T) {
	s := startSource(t)
	cp := filepath.Join(t.TempDir(), "cp")
	code, _, errs := s.replay(t, "--to", "dst", "--checkpoint", cp)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "--create")
	code, out, errs := s.replay(t, "--to", "dst", "--create", "--checkpoint", cp)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "Copied 1000 records")
	want := s.content(t, "src")
	require.Equal(t, want, s.content(t, "dst"))

	code, out, errs = s.replay(t, "--to", "dst", "--checkpoint", cp)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "had been copied before")
	require.Equal(t, want, s.content(t, "dst"))

	code, _, errs = s.replay(t, "--to", "dst", "--checkpoint", cp, "--key", "k1")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "another replay's")
}

func TestReplayByKeyPutsAKeyWhereProducersDo(t *testing.T) {
	s := startSource(t)
	code, _, errs := call(t, nil, "topic", "create", "dst", "--partitions", "3", "--config", "retention.ms=-1", "--bootstrap", s.Kafka)
	require.Equal(t, exitDone, code, errs)
	code, _, errs = s.replay(t, "--to", "dst", "--by-key", "--checkpoint", filepath.Join(t.TempDir(), "cp"))
	require.Equal(t, exitDone, code, errs)
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("dst")
	n := 0
	for p, rs := range s.content(t, "dst") {
		for _, text := range rs {
			var r replay.Line
			require.NoError(t, json.Unmarshal([]byte(text), &r))
			if n++; r.Key == nil {
				require.EqualValues(t, 1, p, "its own partition's number")
				continue
			}
			require.EqualValues(t, partitioner.Partition(&kgo.Record{Key: []byte(*r.Key)}, 3), p)
		}
	}
	require.Equal(t, 1000, n)
}

func TestReplayCopiesWhatTheFiltersSay(t *testing.T) {
	s := startSource(t)
	for _, row := range []struct {
		args []string
		want func(i int) bool
	}{
		{[]string{"--key", "k1", "--key", "k4"}, func(i int) bool { return i%10 == 1 || i%10 == 4 }},
		{[]string{"--key-prefix", "k9"}, func(i int) bool { return i%10 == 9 }},
		{[]string{"--key-regexp", "[23]$"}, func(i int) bool { return i != 13 && (i%10 == 2 || i%10 == 3) }},
		{[]string{"--header", "level=error", "--header", "null"}, func(i int) bool { return i%3 == 0 }},
		{[]string{"--header", "level=warn"}, func(int) bool { return false }},
		{[]string{"--partitions", "1", "--from-offset", "10", "--until-offset", "20"}, func(i int) bool { return i%2 == 1 && i >= 20 && i < 40 }},
		{[]string{"--from-time", "1700000100000", "--until-time", "1700000200000"}, func(i int) bool { return i >= 100 && i < 200 }},
		{[]string{"--from-time", "1700000100000", "--until-time", "1700000200000", "--strict-time"}, func(i int) bool { return i >= 100 && i < 200 }},
	} {
		want := 0
		for i := range 1000 {
			if row.want(i) {
				want++
			}
		}
		code, out, errs := s.replay(t, append(row.args, "--out", "-")...)
		require.Equal(t, exitDone, code, errs)
		require.Equal(t, want, strings.Count(out, "\n"), "%v", row.args)
		for l := range strings.Lines(out) {
			var r replay.Line
			require.NoError(t, json.Unmarshal([]byte(l), &r))
			require.True(t, row.want(int(r.Timestamp-1_700_000_000_000)/1000), "%v: %s", row.args, l)
		}
	}
	code, _, errs := s.replay(t, "--out", "-", "--from-offset", "501")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "offset 501 of partition 0; it has [0, 500)")
}

// A line holds all of a record: what is made of the lines again is what was produced.
func TestNDJSONRoundTrip(t *testing.T) {
	s := startSource(t)
	path := filepath.Join(t.TempDir(), "out.ndjson")
	code, out, errs := s.replay(t, "--out", path, "--json")
	require.Equal(t, exitDone, code, errs)
	var result progressLine
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.EqualValues(t, 1000, result.Records)
	require.Equal(t, path+".checkpoint", result.Checkpoint)

	cl, err := kgo.NewClient(kgo.SeedBrokers(s.Kafka), kgo.ConsumeTopics("src"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer cl.Close()
	want := map[string]*kgo.Record{}
	for len(want) < 1000 {
		cl.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) { want[fmt.Sprint(r.Partition, "/", r.Offset)] = r })
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l replay.Line
		require.NoError(t, json.Unmarshal(lines.Bytes(), &l))
		r := want[fmt.Sprint(l.Partition, "/", l.Offset)]
		delete(want, fmt.Sprint(l.Partition, "/", l.Offset))
		require.Equal(t, r.Timestamp.UnixMilli(), l.Timestamp)
		for _, pair := range [][2]any{{r.Key, must(replay.Bytes(l.Key, l.KeyBase64))}, {r.Value, must(replay.Bytes(l.Value, l.ValueBase64))}} {
			require.Equal(t, pair[0], pair[1])
		}
		require.Len(t, l.Headers, len(r.Headers))
		for i, h := range r.Headers {
			require.Equal(t, h.Key, l.Headers[i].Key)
			require.Equal(t, h.Value, must(replay.Bytes(l.Headers[i].Value, l.Headers[i].ValueBase64)))
		}
	}
	require.Empty(t, want)

	require.NoError(t, os.Remove(path+".checkpoint"))
	code, _, errs = s.replay(t, "--out", path)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "is there already")
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// The dump is the log itself: whole batches with good CRCs, every offset once.
func TestReplayToFilesOfBatches(t *testing.T) {
	s := startSource(t)
	dir := filepath.Join(t.TempDir(), "dump")
	code, _, errs := s.replay(t, "--out", dir, "--format", "dump")
	require.Equal(t, exitDone, code, errs)
	for p := range 2 {
		b, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("src-%d", p), "00000000000000000000.log"))
		require.NoError(t, err)
		var next record.Offset
		for len(b) > 0 {
			batch, rest, err := record.Split(b)
			require.NoError(t, err)
			require.NoError(t, record.CheckCRC(batch))
			h, err := record.ParseHeader(batch)
			require.NoError(t, err)
			require.Equal(t, next, h.BaseOffset)
			next, b = h.NextOffset(), rest
		}
		require.EqualValues(t, 500, next)
	}
}

func TestProgressIsALineWithAnEnd(t *testing.T) {
	p := replay.Progress{Partitions: 1, Done: 250, Total: 1000, Records: 200, Bytes: 2_500_000, Read: 3_000_000, Elapsed: 2 * time.Second, Left: 6 * time.Second}
	require.Equal(t, " 25.0 %  200 records  2.5 MB  1.5 MB/s  ETA 6s", progressText(p))
	require.Equal(t, "[==        ]", bar(p, 10))
	require.Equal(t, "[==========]", bar(replay.Progress{}, 10))
	var out bytes.Buffer
	writeJSONProgress(&out, p)
	require.JSONEq(t, `{"done_offsets":250,"total_offsets":1000,"records":200,"bytes":2500000,"read_bytes":3000000,
		"read_bytes_per_second":1500000,"elapsed_ms":2000,"eta_ms":6000,"resumed":false}`, out.String())
	s := &shower{w: &out, every: time.Hour, write: writeJSONProgress}
	out.Reset()
	s.tell(p)
	s.tell(p)
	s.end()
	require.Empty(t, out.String(), "a short replay shows nothing")
	require.Equal(t, []string{"1 B", "12.0 kB", "3.0 MB", "4.0 GB"}, []string{sizeText(1), sizeText(12_000), sizeText(3e6), sizeText(4e9)})
}
