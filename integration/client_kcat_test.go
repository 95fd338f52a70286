package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"tidemark/integration/harness"
)

// kcat is librdkafka on the command line: what the README's quick start uses.
func TestClientKcat(t *testing.T) {
	t.Parallel()
	needs(t, "kcat", "-V")
	n := harness.Dev(t, harness.Options{})
	coldTopic(t, n)
	k := kcat{t, n}
	t.Run("quick start", func(t *testing.T) {
		k.run("hello\n", "-P", "-t", "greetings") // made by the first record
		require.Equal(t, "hello\n", k.run("", "-C", "-t", "greetings", "-e", "-q"))
	})
	for number, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := "kcat-" + codec
			n.CreateTopic(t, topic, 1)
			k.run(keyed(0, 100), "-P", "-t", topic, "-K", ":", "-z", codec, "-X", "enable.idempotence=true", "-X", "acks=all")
			require.Equal(t, keyed(0, 100), k.run("", "-C", "-t", topic, "-K", ":", "-e", "-q"))
			judgeCodec(t, n, topic, int16(number))
		})
	}
	t.Run("time", func(t *testing.T) {
		at := coldStart.UnixMilli() + 1000*1000 - 500
		require.Equal(t, "cold [0] offset 1000\n", k.run("", "-Q", "-t", fmt.Sprintf("cold:0:%d", at)))
		got := k.run("", "-C", "-t", "cold", "-o", fmt.Sprintf("s@%d", at), "-c", "1", "-q", "-f", "%o %s\n")
		require.Equal(t, "1000 cold-001000", strings.TrimSpace(got))
	})
	t.Run("cold", func(t *testing.T) {
		lines := strings.Split(strings.TrimSpace(k.run("", "-C", "-t", "cold", "-o", "beginning", "-e", "-q", "-f", "%o %T %s\n")), "\n")
		require.Len(t, lines, coldCount)
		for i, line := range lines {
			require.Equal(t, fmt.Sprintf("%d %d cold-%06d", i, coldStart.UnixMilli()+1000*int64(i), i), strings.TrimSpace(line))
		}
	})
	t.Run("list", func(t *testing.T) {
		require.Contains(t, k.run("", "-L"), `topic "cold" with 1 partitions`)
	})
	t.Run("group", func(t *testing.T) { k.group(t) })
}

// keyed are lines key:value of the records that judgeCodec expects.
func keyed(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "k%d:%-200s\n", i, fmt.Sprintf("v%d", i))
	}
	return b.String()
}

type kcat struct {
	t *testing.T
	n *harness.Node
}

// run feeds kcat and gives what it prints.
func (k kcat) run(in string, args ...string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "kcat", append([]string{"-b", k.n.Kafka}, args...)...)
	var out, diag bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &diag
	require.NoError(k.t, cmd.Run(), "kcat %v: %s", args, diag.String())
	return out.String()
}

// group has two members share four partitions; when one leaves, the other goes on for both, at what the first has committed: no
// record is read twice.
//
// The group begins with committed offsets. A librdkafka that finds none asks for the log's beginning, and if the partition is
// revoked before the answer it tries again half a second later, with whatever assignment it has by then (2.0.2; its debug log says
// "outdated offset response" and "timed offset query for BEGINNING in state active"): a partition that it was given again
// meanwhile, with an offset that is committed, is read from its beginning.
func (k kcat) group(t *testing.T) {
	k.n.CreateTopic(t, "kcat-group", 4)
	adm := kadm.NewClient(k.n.Client(t))
	begin := make(kadm.Offsets)
	for partition := range int32(4) {
		begin.Add(kadm.Offset{Topic: "kcat-group", Partition: partition, At: 0, LeaderEpoch: -1})
	}
	require.NoError(t, adm.CommitAllOffsets(t.Context(), "kcat-g", begin))
	var mu sync.Mutex
	seen := map[string]int{}
	got := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
	member := func() (leave func(), shares func() string) {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, "kcat", "-b", k.n.Kafka, "-G", "kcat-g", "-u", "-X", "heartbeat.interval.ms=300",
			"-X", "auto.offset.reset=error", "-X", "auto.commit.interval.ms=200", "-f", "%k\n", "kcat-group")
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it commits and leaves
		var diag lines
		cmd.Stderr = &diag
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		read := make(chan struct{})
		go func() {
			defer close(read)
			for s := bufio.NewScanner(out); s.Scan(); {
				mu.Lock()
				seen[s.Text()]++
				mu.Unlock()
			}
		}()
		return func() { cancel(); <-read; _ = cmd.Wait() }, diag.text
	}
	leaveA, sharesA := member()
	leaveB, sharesB := member()
	harness.Until(t, time.Minute, "two shares", func() error {
		a, b := lastShare(sharesA()), lastShare(sharesB())
		if a != 2 || b != 2 {
			return fmt.Errorf("shares %d and %d", a, b)
		}
		return nil
	})
	k.run(keyed(0, 200), "-P", "-t", "kcat-group", "-K", ":")
	all := func(n int) func() error {
		return func() error {
			if got() != n {
				return fmt.Errorf("%d records", got())
			}
			return nil
		}
	}
	harness.Until(t, time.Minute, "all records", all(200))
	leaveB()
	k.run(keyed(200, 300), "-P", "-t", "kcat-group", "-K", ":")
	harness.Until(t, time.Minute, "the one that stayed reads all partitions", all(300))
	leaveA()
	for key, n := range seen {
		require.Equal(t, 1, n, "record %s", key)
	}
	committed, err := adm.FetchOffsets(t.Context(), "kcat-g")
	require.NoError(t, err)
	for partition := range int32(4) {
		got, _ := committed.Lookup("kcat-group", partition)
		require.Equal(t, k.n.Offset(t, "kcat-group", partition, -1), got.At, "committed of partition %d", partition)
	}
}

// lastShare counts the partitions of kcat's last line "% Group … rebalanced … assigned: topic [0], topic [1]".
func lastShare(log string) int {
	i := strings.LastIndex(log, "assigned:")
	if i < 0 {
		return 0
	}
	line, _, _ := strings.Cut(log[i:], "\n")
	return strings.Count(line, "[")
}

// lines collects what a process writes while it runs.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
