package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
)

// A broker on embedded defaults is there at once, and at once again after it was killed: it waits for nobody's lease. How
// fast the machine is shows the start on an empty folder.
func TestDevStartsAtOnce(t *testing.T) {
	n := harness.Dev(t, harness.Options{Down: true})
	harness.Binary(t)
	start := func(when string) time.Duration {
		started := time.Now()
		n.Start()
		took := time.Since(started)
		t.Logf("%s: ready in %v", when, took.Round(time.Millisecond))
		return took
	}
	empty := start("on an empty folder")
	harness.Until(t, 2*time.Minute, "a start after SIGKILL is as fast", func() error {
		n.Kill()
		if took := start("after SIGKILL"); took > max(3*time.Second, 2*empty) {
			return fmt.Errorf("it took %v, %v on an empty folder", took, empty)
		}
		return nil
	})
	require.Zero(t, n.Term())
}

// H27: a second process with the broker's number waits, sees that the first one lives, and ends with code 3; the first
// one does not notice. A second process on the same folder is refused too.
func TestH27_ASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	n.CreateTopic(t, "mine", 1)
	second := harness.Serve(t, stores, harness.Options{Down: true})
	second.Launch()
	require.Equal(t, 3, second.Wait(2*time.Minute))
	require.Contains(t, second.Log(), n.Kafka, "the message names the holder")
	same := harness.Serve(t, stores, harness.Options{Down: true, Dir: n.Dir, Env: map[string]string{"TIDEMARK_BROKER_ID": "2"}})
	same.Launch()
	require.NotZero(t, same.Wait(2*time.Minute))
	require.True(t, n.Alive())
	produceTens(t, n, "mine", 0, 3)
}

// The tools show what the HTTP API and a Kafka client see.
func TestTools(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	run := func(args ...string) string {
		t.Helper()
		out, diag, code := n.Tool(args...)
		require.Zero(t, code, "%v: %s", args, diag)
		return out
	}
	run("topic", "create", "tools", "--config", "segment.bytes=10700", "--config", "retention.ms=-1")
	produceTens(t, n, "tools", 0, 31)
	tiered(t, n, "tools", 29)
	require.Contains(t, run("topic", "list"), "tools")
	require.Contains(t, run("topic", "describe", "tools"), "segment.bytes")
	require.Contains(t, run("tier", "status", "tools"), "30")
	rows, err := n.Segments("tools", 0)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(run("tier", "ls", "tools", "--json")), "\n")
	require.Len(t, lines, len(rows))
	for i, line := range lines {
		var got struct{ Key string }
		require.NoError(t, json.Unmarshal([]byte(line), &got))
		require.Equal(t, rows[i].Key, got.Key)
	}
	_, diag, code := n.Tool("tier", "ls", "nothing")
	require.Equal(t, 1, code)
	require.NotEmpty(t, diag)
	_, _, code = n.Tool("topic", "create")
	require.Equal(t, 2, code)
	run("topic", "delete", "tools")
	require.NotContains(t, run("topic", "list"), "tools")
}
