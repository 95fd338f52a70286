package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
)

// What a broker with many partitions holds, open and idle, is bounded and known: at most one file each, none where nothing
// was written since a clean start, no goroutine each.
// TIDEMARK_SOAK_PARTITIONS makes it the 10,000 of DESIGN §11; times and memory are logged, never judged (docs/proof.md).
func TestManyPartitions(t *testing.T) {
	total, err := strconv.Atoi(setting("TIDEMARK_SOAK_PARTITIONS", "2000"))
	require.NoError(t, err)
	n := harness.Dev(t, harness.Options{Env: map[string]string{"TIDEMARK_LOG_LEVEL": "info"}})
	began := time.Now()
	manyTopics(t, n, total)
	t.Logf("created %d partitions in %v", total, time.Since(began).Round(time.Millisecond))
	logFootprint(t, n, "new")
	began = time.Now()
	writeEach(t, n, total)
	t.Logf("wrote a record to each in %v", time.Since(began).Round(time.Millisecond))
	judgeFootprint(t, n, total+200, "written")

	began = time.Now()
	require.Zero(t, n.Term())
	t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
	began = time.Now()
	n.Start()
	t.Logf("started after a clean stop in %v", time.Since(began).Round(time.Millisecond))
	judgeFootprint(t, n, 200, "started again")
	require.EqualValues(t, 1, n.Offset(t, manyName(0), int32(total/manyShare-1), harness.Latest))
	n.Kill()
	began = time.Now()
	n.Start()
	t.Logf("started after SIGKILL in %v", time.Since(began).Round(time.Millisecond))
	judgeFootprint(t, n, total+200, "after SIGKILL")
	require.EqualValues(t, 1, n.Offset(t, manyName(0), int32(total/manyShare-1), harness.Latest))
}

// manyShare is how many topics share the partitions.
const manyShare = 20

func manyName(i int) string { return fmt.Sprintf("many-%d", i) }

func manyTopics(t *testing.T, n *harness.Node, total int) {
	for i := range manyShare {
		r, err := kadm.NewClient(n.Client(t)).CreateTopic(within(t, 2*time.Minute), int32(total/manyShare), 1, nil, manyName(i))
		require.NoError(t, err)
		require.NoError(t, r.Err)
	}
}

func writeEach(t *testing.T, n *harness.Node, total int) {
	cl := n.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	defer cl.Close()
	var rs []*kgo.Record
	for i := range total {
		rs = append(rs, &kgo.Record{Topic: manyName(i % manyShare), Partition: int32(i / manyShare), Value: []byte("x")})
	}
	require.NoError(t, cl.ProduceSync(within(t, 3*time.Minute), rs...).FirstErr())
}

// judgeFootprint bounds what grows with partitions, once what a start has to do is done: open files, and goroutines.
func judgeFootprint(t *testing.T, n *harness.Node, most int, when string) {
	t.Helper()
	harness.Until(t, time.Minute, when+": the broker is at rest", func() error {
		files, goroutines := int(n.Metric("process_open_fds")), int(n.Metric("go_goroutines"))
		if files >= most || goroutines >= 200 {
			return fmt.Errorf("%d files, %d goroutines", files, goroutines)
		}
		return nil
	})
	logFootprint(t, n, when)
}

func logFootprint(t *testing.T, n *harness.Node, when string) {
	cpu := processTicks(t, n)
	idle := time.Second
	if v := os.Getenv("TIDEMARK_SOAK_IDLE"); v != "" {
		d, err := time.ParseDuration(v)
		require.NoError(t, err)
		idle = d
	}
	harness.Holds(t, idle, "the broker lives", func() error {
		if !n.Alive() {
			return fmt.Errorf("it has ended")
		}
		return nil
	})
	spent := float64(processTicks(t, n)-cpu) / 100 / idle.Seconds()
	t.Logf("%s: %.0f files, %.0f goroutines, RSS %.0f MiB, %.1f %% of a core", when, n.Metric("process_open_fds"),
		n.Metric("go_goroutines"), n.Metric("process_resident_memory_bytes")/(1<<20), 100*spent)
}

// processTicks is user and system time of the node's process in hundredths of a second.
func processTicks(t *testing.T, n *harness.Node) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.Pid()))
	require.NoError(t, err)
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	user, err := strconv.Atoi(f[11])
	require.NoError(t, err)
	system, err := strconv.Atoi(f[12])
	require.NoError(t, err)
	return user + system
}
