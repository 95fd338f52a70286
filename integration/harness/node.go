package harness

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark/internal/testenv"
)

// Limits of a node's life. They are far above what the product promises: a test machine is shared.
const (
	readyLimit = 3 * time.Minute
	stopLimit  = 90 * time.Second
)

// Node is one broker: its folders and addresses, and the process that serves them now, if one does. Not safe for
// concurrent use, but for reading its fields.
type Node struct {
	Kafka string // host:port for clients
	HTTP  string // URL of metrics, health and API
	Dir   string // data folder
	Cache string // folder of the cache of cold reads

	t    testing.TB
	bin  string
	work string // working folder of the process
	args []string
	env  map[string]string
	log  *testenv.Lines
	proc *process
}

// Options say how a node differs from what tests usually want.
type Options struct {
	Env map[string]string // variables, over the harness's own
	// Dir is the data folder; empty: a new one that is removed with the test.
	Dir string
	// Down leaves the node to be started by the test.
	Down bool
}

// testDefaults make a node quick: what takes minutes in production takes a second or two here. Only a clean stop may take
// longer, for a node that is given no processor time.
var testDefaults = map[string]string{
	"TIDEMARK_FREE_DELAY": "1s", "TIDEMARK_GC_GRACE": "6s", "TIDEMARK_LOG_LEVEL": "debug",
	"TIDEMARK_DISK_PRODUCE_MARK": "64MiB", "TIDEMARK_DISK_APPEND_MARK": "16MiB",
	"TIDEMARK_SHUTDOWN_TIMEOUT": "1m",
}

// Dev starts `tidemark dev` on free ports and waits until it is ready.
func Dev(t testing.TB, o Options) *Node {
	t.Helper()
	n := newNode(t, o)
	n.args = []string{"dev", "--data", n.Dir, "--kafka", n.Kafka, "--http", strings.TrimPrefix(n.HTTP, "http://")}
	if !o.Down {
		n.Start()
	}
	return n
}

// Serve starts `tidemark serve` as broker 1 on free ports with the given stores and waits until it is ready.
func Serve(t testing.TB, s Stores, o Options) *Node {
	t.Helper()
	n := newNode(t, o)
	n.args = []string{"serve"}
	own := map[string]string{
		"TIDEMARK_BROKER_ID": "1", "TIDEMARK_DATA_DIR": n.Dir, "TIDEMARK_AUTO_CREATE_TOPICS": "true",
		"TIDEMARK_LISTENERS": "PLAINTEXT://" + n.Kafka, "TIDEMARK_HTTP_LISTEN": strings.TrimPrefix(n.HTTP, "http://"),
		"TIDEMARK_GROUP_INITIAL_REBALANCE_DELAY": "0s",
	}
	for k, v := range s.environment() {
		own[k] = v
	}
	for k, v := range own {
		if _, set := o.Env[k]; !set {
			n.env[k] = v
		}
	}
	if !o.Down {
		n.Start()
	}
	return n
}

func newNode(t testing.TB, o Options) *Node {
	t.Helper()
	n := &Node{t: t, bin: Binary(t), work: t.TempDir(), Dir: o.Dir, env: map[string]string{}, log: &testenv.Lines{}}
	if n.Dir == "" {
		n.Dir = filepath.Join(n.work, "data")
	}
	n.Cache = filepath.Join(n.Dir, "cache")
	n.Kafka = "127.0.0.1:" + strconv.Itoa(FreePort(t))
	n.HTTP = "http://127.0.0.1:" + strconv.Itoa(FreePort(t))
	for k, v := range testDefaults {
		n.env[k] = v
	}
	for k, v := range o.Env {
		n.env[k] = v
	}
	t.Cleanup(n.finish)
	return n
}

// Setenv changes a variable for the next Start.
func (n *Node) Setenv(name, value string) { n.env[name] = value }

// Start runs the binary on the node's folders and ports and waits until /readyz says 200.
func (n *Node) Start() {
	n.t.Helper()
	n.Launch()
	n.AwaitReady()
}

// Launch runs the binary without waiting for it.
func (n *Node) Launch() {
	n.t.Helper()
	if n.proc != nil && n.proc.alive() {
		n.t.Fatal("harness: the node runs already")
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TIDEMARK_") {
			env = append(env, v)
		}
	}
	for k, v := range n.env {
		env = append(env, k+"="+v)
	}
	p, err := launch(n.bin, n.args, env, n.work, n.log)
	if err != nil {
		n.t.Fatalf("harness: start %s: %v", n.bin, err)
	}
	n.proc = p
}

// AwaitReady waits until /readyz says 200.
func (n *Node) AwaitReady() {
	n.t.Helper()
	Until(n.t, readyLimit, "the broker is ready", func() error {
		if !n.proc.alive() {
			n.t.Fatalf("the broker ended with code %d before it was ready", n.proc.code)
		}
		status, body, err := n.Get("/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("readyz: %d %s", status, body)
		}
		return err
	})
}

// Kill ends the process with SIGKILL.
func (n *Node) Kill() { n.t.Helper(); n.end(syscall.SIGKILL) }

// Term ends the process with SIGTERM and returns its exit code.
func (n *Node) Term() int { n.t.Helper(); return n.end(syscall.SIGTERM) }

// Stop freezes the process; Cont lets it go on.
func (n *Node) Stop() { n.t.Helper(); n.pass(syscall.SIGSTOP) }

// Cont lets a stopped process go on.
func (n *Node) Cont() { n.t.Helper(); n.pass(syscall.SIGCONT) }

// Wait waits for the process to end by itself and returns its exit code.
func (n *Node) Wait(limit time.Duration) int {
	n.t.Helper()
	select {
	case <-n.proc.done:
	case <-time.After(limit):
		n.t.Fatalf("the broker did not end within %v", limit)
	}
	return n.proc.code
}

// Alive says whether the process runs.
func (n *Node) Alive() bool { return n.proc != nil && n.proc.alive() }

// Pid is the process's id.
func (n *Node) Pid() int { return n.proc.cmd.Process.Pid }

// Log is all that the node's processes have printed.
func (n *Node) Log() string { return n.log.String() }

// Wipe removes the data folder of a node that is down.
func (n *Node) Wipe() { n.t.Helper(); n.remove(n.Dir) }

// DropCache removes the cache folder.
func (n *Node) DropCache() { n.t.Helper(); n.remove(n.Cache) }

func (n *Node) remove(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		n.t.Fatal(err)
	}
}

func (n *Node) end(s syscall.Signal) int {
	n.t.Helper()
	if n.proc == nil {
		return 0
	}
	if err := n.proc.signal(s, true, stopLimit); err != nil {
		_ = n.proc.signal(syscall.SIGKILL, true, stopLimit)
		n.t.Fatal(err)
	}
	return n.proc.code
}

func (n *Node) pass(s syscall.Signal) {
	n.t.Helper()
	if err := n.proc.signal(s, false, 0); err != nil {
		n.t.Fatal(err)
	}
}

// bugs are lines that no run may print.
var bugs = regexp.MustCompile(`(?m)^panic: .*|^fatal error: .*|^WARNING: DATA RACE|.*level=ERROR.*panic.*`)

// finish ends the node with its test and judges it.
func (n *Node) finish() {
	if n.Alive() {
		_ = n.proc.signal(syscall.SIGCONT, false, 0)
		n.judgeCounters()
		if err := n.proc.signal(syscall.SIGTERM, true, stopLimit); err != nil {
			n.t.Error(err)
			_ = n.proc.signal(syscall.SIGKILL, true, stopLimit)
		}
	}
	if found := bugs.FindAllString(n.Log(), 5); found != nil {
		n.t.Errorf("the broker printed %q", found)
	}
	if n.t.Failed() {
		n.keepLog()
		n.t.Logf("log of the broker at %s:\n%s", n.Kafka, shortened(n.Log(), 16_000))
	}
}

// LogsVariable names a folder that keeps the whole logs of failed tests' nodes.
const LogsVariable = "TIDEMARK_TEST_LOGS"

func (n *Node) keepLog() {
	dir := os.Getenv(LogsVariable)
	if dir == "" {
		return
	}
	name := strings.NewReplacer("/", "_", ":", "_").Replace(n.t.Name() + "_" + n.Kafka + ".log")
	if err := os.WriteFile(filepath.Join(dir, name), []byte(n.Log()), 0o644); err != nil {
		n.t.Logf("the log is not kept: %v", err)
	}
}

func (n *Node) judgeCounters() {
	got, err := n.Metrics()
	if err != nil {
		n.t.Logf("the broker's metrics could not be read at the end: %v", err)
		return
	}
	for name, value := range got {
		if strings.HasPrefix(name, "tidemark_kafka_unknown_server_errors_total") && value > 0 {
			n.t.Errorf("%s is %v: the broker answered UNKNOWN_SERVER_ERROR", name, value)
		}
	}
}

// shortened keeps the beginning and, mostly, the end of a long text.
func shortened(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit/4] + fmt.Sprintf("\n[… %d bytes …]\n", len(s)-limit) + s[len(s)-limit*3/4:]
}
