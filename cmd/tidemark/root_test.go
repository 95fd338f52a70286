package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/admin"
	"tidemark/record"
)

// call runs the binary's main with the given environment and arguments.
func call(t *testing.T, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, system{out: &o, err: &e, environ: environ})
	return code, o.String(), e.String()
}

func TestWrongUsageIsCodeTwoWithARemedy(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		says string
	}{
		{"no such command", []string{"fly"}, `unknown command "fly"`},
		{"no such topic command", []string{"topic", "fly"}, `unknown command "fly" for "tidemark topic"`},
		{"no such flag", []string{"dev", "--port", "1"}, "unknown flag: --port"},
		{"tier given topic's flag", []string{"tier", "status", "a", "--bootstrap", "h:1"}, "unknown flag: --bootstrap; `tidemark tier status` asks a broker's HTTP address, e.g. --http http://127.0.0.1:9644"},
		{"topic given tier's flag", []string{"topic", "list", "--http", "h:1"}, "unknown flag: --http; `tidemark topic list` asks a broker by Kafka's protocol, e.g. --bootstrap 127.0.0.1:9092"},
		{"replay given tier's flag", []string{"replay", "a", "--http=h"}, "--bootstrap 127.0.0.1:9092"},
		{"dev given topic's flag", []string{"dev", "--bootstrap", "h:1"}, "the address to serve clients on is --kafka"},
		{"a flag of nobody's", []string{"tier", "gc", "--fast"}, "unknown flag: --fast; see `tidemark tier gc --help`"},
		{"missing topic", []string{"topic", "create"}, "the topic's name is missing"},
		{"one argument too many", []string{"tier", "status", "a", "b"}, `"b" is one too many`},
		{"a config without a value", []string{"topic", "create", "a", "--config", "retention.ms"}, `--config "retention.ms" is not NAME=VALUE`},
		{"nothing to alter", []string{"topic", "alter", "a"}, "nothing to change"},
		{"not a URL", []string{"tier", "status", "a", "--http", "localhost"}, `--http "localhost" is not a URL`},
		{"a negative offset", []string{"tier", "ls", "a", "--after", "-4"}, "no negative numbers"},
		{"not a number", []string{"topic", "create", "a", "--partitions", "many"}, "many"},
	} {
		t.Run(row.name, func(t *testing.T) {
			code, out, errs := call(t, nil, row.args...)
			require.Equal(t, exitUsage, code, errs)
			require.Contains(t, errs, row.says)
			require.Empty(t, out)
		})
	}
}

func TestWrongSettingsAreAllToldAtOnceBeforeAnythingIsOpened(t *testing.T) {
	environ := []string{"TIDEMARK_FREE_DELAY=soon", "TIDEMARK_COLOUR=blue"}
	code, _, errs := call(t, environ, "serve")
	require.Equal(t, exitUsage, code)
	for _, want := range []string{"TIDEMARK_FREE_DELAY", "soon", "TIDEMARK_COLOUR", "TIDEMARK_BROKER_ID", "TIDEMARK_CATALOG_URL", "TIDEMARK_OBJECT_STORE_URL"} {
		require.Contains(t, errs, want)
	}
	code, _, errs = call(t, nil, "dev", "--data", t.TempDir(), "--kafka", "nowhere")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "--kafka or TIDEMARK_LISTENERS")
}

func TestNobodyThereIsCodeOneWithARemedy(t *testing.T) {
	code, _, errs := call(t, nil, "tier", "status", "a", "--http", "http://127.0.0.1:1")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "no broker answers at http://127.0.0.1:1")
	require.Contains(t, errs, "tidemark dev")
}

func TestConfigPrintsEveryVariable(t *testing.T) {
	code, out, _ := call(t, nil, "config")
	require.Equal(t, exitDone, code)
	require.Contains(t, out, "TIDEMARK_FREE_DELAY")
	code, out, _ = call(t, nil, "config", "--json")
	require.Equal(t, exitDone, code)
	var vs []map[string]string
	require.NoError(t, json.Unmarshal([]byte(out), &vs))
	require.NotEmpty(t, vs)
}

// api serves one topic of two partitions whose first has five objects.
func api(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/tier/{topic}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("topic") != "events" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(admin.Failure{Error: "there is no topic " + r.PathValue("topic")})
			return
		}
		_ = json.NewEncoder(w).Encode(admin.TopicTier{Topic: "events", Remote: true, Partitions: []admin.Partition{
			{Partition: 0, Leader: 1, Here: true, LocalStart: 40, Tiered: 50, LogEnd: 60, Upload: &admin.Upload{Stalled: "bucket away", Failures: 2}, Retention: "kept"},
			{Partition: 1, Leader: -1},
			{Partition: 2, Leader: 2, Here: true, Retention: "kept", LocalRetention: "freed"},
			{Partition: 3, Leader: 2, Here: true, Retention: "kept"},
		}})
	})
	mux.HandleFunc("GET /api/v1/tier/{topic}/segments", func(w http.ResponseWriter, r *http.Request) {
		page := admin.SegmentPage{Topic: "events", Segments: []admin.Segment{}}
		if q := r.URL.Query(); q.Get("partition") == "0" {
			from, next := q.Get("after"), map[string]record.Offset{"0": 20, "20": 40, "40": 50}
			page.Segments = append(page.Segments, admin.Segment{Base: next[from] - 10, Next: next[from], MinTimestamp: 1e12, MaxTimestamp: -1, Key: "k"})
			if end := next[from]; end < 50 {
				page.After = &end
			}
		}
		_ = json.NewEncoder(w).Encode(page)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestTierStatus(t *testing.T) {
	url := api(t)
	code, out, errs := call(t, nil, "tier", "status", "events", "--http", url)
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "uploads fail (2 in a row): bucket away")
	require.Contains(t, out, "not on this broker")
	require.Contains(t, out, "Partitions 0,2-3: kept\nPartition 2: freed\n")

	code, out, _ = call(t, nil, "tier", "status", "events", "--json", "--http", url)
	require.Equal(t, exitDone, code)
	var got admin.TopicTier
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, record.Offset(40), got.Partitions[0].LocalStart)

	code, _, errs = call(t, nil, "tier", "status", "no such/topic", "--http", url)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "there is no topic no such/topic")
}

func TestTierLsGoesThroughAllPages(t *testing.T) {
	url := api(t)
	code, out, errs := call(t, nil, "tier", "ls", "events", "--json", "--http", url)
	require.Equal(t, exitDone, code, errs)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	var last objectLine
	require.NoError(t, json.Unmarshal([]byte(lines[2]), &last))
	require.Equal(t, record.Offset(50), last.Next)

	_, out, _ = call(t, nil, "tier", "ls", "events", "--limit", "1", "--http", url)
	require.Contains(t, out, "2001-09-09T01:46:40Z")
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 2, "a header and one object")
}

func TestAStopHasALimit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	stuck := make(chan struct{})
	defer close(stuck)
	err := within(ctx, 10*time.Millisecond, func() {}, func(context.Context) error { <-stuck; return nil })
	require.ErrorContains(t, err, "TIDEMARK_SHUTDOWN_TIMEOUT=10ms")

	failed := errors.New("disk gone")
	require.ErrorIs(t, within(t.Context(), time.Hour, func() {}, func(context.Context) error { return failed }), failed)
}
