package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/broker/admin"
	"tidemark/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// devBroker is a `tidemark dev` that runs in this process.
type devBroker struct {
	greeting
	errs *bytes.Buffer
	stop func() int // ends it as a signal does; the exit code
}

// startDev runs `tidemark dev` on free ports over a data folder.
func startDev(t *testing.T, data string) devBroker {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	d := devBroker{errs: &bytes.Buffer{}}
	code := make(chan int, 1)
	go func() {
		args := []string{"dev", "--json", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"}
		c := run(ctx, args, system{out: pw, err: d.errs})
		_ = pw.Close()
		code <- c
	}()
	d.stop = func() int {
		cancel()
		c := <-code
		code <- c
		return c
	}
	t.Cleanup(func() {
		d.stop()
		http.DefaultClient.CloseIdleConnections()
	})
	if err := json.NewDecoder(pr).Decode(&d.greeting); err != nil {
		t.Fatalf("dev did not start: exit code %d\n%s", d.stop(), d.errs)
	}
	return d
}

// An operator reads in the log which build served, where, and that it ended by itself.
func TestTheLogSaysWhatServesAndThatItStopped(t *testing.T) {
	d := startDev(t, filepath.Join(t.TempDir(), "data"))
	require.Equal(t, exitDone, d.stop())
	require.Regexp(t, `msg=serving version=.*go1.* broker=1 listeners=.*`+d.Kafka+`.* http=`+strings.TrimPrefix(d.HTTP, "http://")+` data=`, d.errs.String())
	require.Regexp(t, `msg=stopped broker=1\n$`, d.errs.String())
	code, out, _ := call(t, nil, "--version")
	require.Equal(t, exitDone, code)
	require.Regexp(t, `^tidemark version \S+ go1\.\d+`, out)
}

func TestATopicsLifeByTheToolsAgainstDev(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	d := startDev(t, data)
	topic := func(args ...string) (int, string, string) {
		return call(t, nil, append(append([]string{"topic"}, args...), "--bootstrap", d.Kafka)...)
	}
	code, out, errs := topic("create", "events", "--partitions", "2", "--config", "retention.ms=-1")
	require.Equal(t, exitDone, code, errs)
	require.Contains(t, out, "Created events: 2 partition(s), 1 replica(s)")

	code, _, errs = topic("create", "events")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "already exists")
	code, _, errs = topic("create", "other", "--config", "retention.ms=soon")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "retention.ms")
	require.Contains(t, errs, "soon")

	code, _, errs = topic("alter", "events", "--set", "segment.ms=60000", "--config", "segment.bytes=1048576", "--unset", "retention.ms", "--partitions", "3")
	require.Equal(t, exitDone, code, errs)
	code, out, errs = topic("describe", "events", "--json")
	require.Equal(t, exitDone, code, errs)
	var got topicDescription
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, map[string]string{"segment.ms": "60000", "segment.bytes": "1048576"}, got.Configs)
	require.Len(t, got.Details, 3)
	require.Equal(t, int32(1), got.Details[2].Leader)
	require.Equal(t, int64(0), got.Details[2].End)

	code, out, errs = call(t, nil, "tier", "status", "events", "--json", "--http", d.HTTP)
	require.Equal(t, exitDone, code, errs)
	var tiers admin.TopicTier
	require.NoError(t, json.Unmarshal([]byte(out), &tiers))
	require.Equal(t, got.ID, tiers.ID)
	require.True(t, tiers.Partitions[0].Here)
	code, out, _ = call(t, nil, "tier", "ls", "events", "--json", "--http", d.HTTP)
	require.Equal(t, exitDone, code)
	require.Empty(t, out)

	code, _, errs = topic("describe", "missing")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "there is no topic missing")
	code, out, _ = topic("delete", "events")
	require.Equal(t, exitDone, code)
	require.Equal(t, "Deleted events.\n", out)
	_, out, _ = topic("list", "--json")
	require.Equal(t, "[]\n", out)
	require.Equal(t, exitDone, d.stop())
}

func TestDevComesBackWithWhatItHad(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	first := startDev(t, data)
	code, _, errs := call(t, nil, "topic", "create", "kept", "--bootstrap", first.Kafka)
	require.Equal(t, exitDone, code, errs)
	require.Equal(t, exitDone, first.stop())

	again := startDev(t, data)
	_, out, _ := call(t, nil, "topic", "list", "--bootstrap", again.Kafka)
	require.Contains(t, out, "kept")
	resp, err := http.Get(again.HTTP + "/readyz")
	require.NoError(t, err)
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
}

func TestASecondDevOnTheSameFolderIsRefused(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	startDev(t, data)
	code, out, errs := call(t, nil, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0")
	require.Equal(t, exitFailed, code)
	require.Empty(t, out)
	require.True(t, strings.HasPrefix(errs, "tidemark: "), errs)
	require.Contains(t, errs, data)
	require.Equal(t, 1, strings.Count(errs, "stop it, or give this one a data folder of its own"), errs)

	other := "TIDEMARK_CATALOG_URL=sqlite://" + filepath.Join(t.TempDir(), "catalog.db")
	code, _, errs = call(t, []string{other}, "dev", "--data", data, "--kafka", "127.0.0.1:0", "--http", "none")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, `TIDEMARK_DATA_DIR="`+data)
	require.Contains(t, errs, "another process holds its lock; stop it, or give this one a folder of its own")
}

func TestAnAddressInUseIsToldAtOnce(t *testing.T) {
	first := startDev(t, t.TempDir())
	other := t.TempDir()
	code, _, errs := call(t, nil, "dev", "--data", other, "--kafka", first.Kafka, "--http", "127.0.0.1:0")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, first.Kafka)
	_, err := os.Stat(filepath.Join(other, "catalog.db"))
	require.NoError(t, err, "the folder can be used again")
	startDev(t, other)
}
