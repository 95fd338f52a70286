package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// rdkafkaMember is a process with one member of a group, integration/clients/python/group_member.py.
type rdkafkaMember struct {
	t    *testing.T
	in   io.Closer
	done chan struct{} // closed when it has ended

	mu    sync.Mutex // guards what follows
	lines []string
}

func (c *cluster) rdkafka(topic, instance string, sessionMs int) *rdkafkaMember {
	c.t.Helper()
	cmd := exec.Command("/usr/bin/python3", "../clients/python/group_member.py")
	cmd.Env = append(os.Environ(), "BOOTSTRAP="+strings.Join(c.seeds, ","), "TOPIC="+topic, "GROUP="+topic, "INSTANCE="+instance,
		fmt.Sprint("SESSION_MS=", sessionMs))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	m := &rdkafkaMember{t: c.t, in: in, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			m.mu.Lock()
			m.lines = append(m.lines, sc.Text())
			m.mu.Unlock()
		}
		_ = cmd.Wait()
	}()
	c.t.Cleanup(m.stop)
	return m
}

// stop ends the process as an application does; a static member does not leave.
func (m *rdkafkaMember) stop() {
	_ = m.in.Close()
	<-m.done
}

// says reports whether a line that begins so was printed, and the last one.
func (m *rdkafkaMember) says(prefix string) (last string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, line := range m.lines {
		if strings.HasPrefix(line, prefix) {
			last, ok = line, true
		}
	}
	return last, ok
}

func (m *rdkafkaMember) await(c *cluster, prefix string) string {
	m.t.Helper()
	c.until(recovery, "a member of librdkafka says "+prefix, func() error {
		if _, ok := m.says(prefix); !ok {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	line, _ := m.says(prefix)
	return line
}

// feed produces to all partitions of a topic all the time; by default one of them would have the first 64 KiB.
func (c *cluster) feed(topic string) {
	cl := c.client(kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(0), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	ctx, stop := context.WithCancel(context.Background())
	var feeding sync.WaitGroup
	feeding.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			cl.Produce(ctx, kgo.StringRecord("x"), nil)
		}
	})
	c.t.Cleanup(func() { stop(); feeding.Wait() })
}

// G5 (librdkafka #5586): the coordinator moves while a member of librdkafka looks for it, joins, or fetches its offsets. It
// gets records all the same.
func TestG5_LibrdkafkaFollowsACoordinatorThatMoves(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	c.create("g5", 4)
	c.feed("g5")
	first := c.rdkafka("g5", "", 6000)
	first.await(c, "at ")
	first.stop()
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, time.Second} {
		var v *member
		c.until(recovery, "the group has a coordinator", func() error {
			found := c.adm.FindGroupCoordinators(t.Context(), "g5")["g5"]
			if found.Err != nil {
				return found.Err
			}
			v = c.member(int(found.NodeID))
			return nil
		})
		m := c.rdkafka("g5", "", 6000)
		c.during(after)
		v.down = true
		require.Zero(t, v.Term())
		began := time.Now()
		m.await(c, "at ")
		t.Logf("moved %v after the member's start: records %v later", after, time.Since(began).Round(time.Millisecond))
		m.stop()
		v.revive()
		c.until(recovery, "all replicas are in sync", func() error { return c.full("g5") })
	}
}

// G7: two processes of librdkafka with one group.instance.id: the older one is fenced, the newer one has its partitions, and so
// has the next one after a restart, without a rebalance for others. Their coordinator stays where it is: where it moves to, all join.
func TestG7_TwoProcessesOfLibrdkafkaWithOneInstanceID(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{env: map[string]string{"TIDEMARK_BALANCE_DELAY": "1h"}})
	c.create("g7", 4)
	c.feed("g7")
	a := c.rdkafka("g7", "i1", 30000)
	a.await(c, "assigned 0,1,2,3")
	other := c.rdkafka("g7", "i2", 30000)
	had := other.await(c, "assigned ")
	c.until(recovery, "the first gives half of the partitions up", func() error {
		if line, _ := a.says("assigned "); line == "assigned 0,1,2,3" {
			return fmt.Errorf("it has all")
		}
		return nil
	})
	kept, _ := a.says("assigned ")
	b := c.rdkafka("g7", "i1", 20000)
	require.Equal(t, kept, b.await(c, "assigned "), "the newer process has what the older had")
	require.Equal(t, "fatal _FATAL", a.await(c, "fatal "))
	for partition := range strings.SplitSeq(strings.TrimPrefix(kept, "assigned "), ",") {
		b.await(c, "at "+partition+" ")
	}
	b.stop()
	again := c.rdkafka("g7", "i1", 20000)
	require.Equal(t, kept, again.await(c, "assigned "), "a restart gives it the same")
	now, _ := other.says("assigned ")
	require.Equal(t, had, now, "the other member was left alone")
	groups, err := c.adm.DescribeGroups(t.Context(), "g7")
	require.NoError(t, err)
	require.Len(t, groups["g7"].Members, 2)
}
