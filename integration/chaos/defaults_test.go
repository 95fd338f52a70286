package chaos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/harness"
)

// defaultClient is a producer with its library's defaults.
type defaultClient interface {
	name() string
	mark()                  // begins anew
	flows() bool            // every partition has acknowledged something since
	silence() time.Duration // the longest of a partition since
}

// How long partitions are silent for clients with the back-offs that they have by default, when leaders are killed: said, not
// asserted. TIDEMARK_CHAOS_DEFAULT_KILLS is how many.
func TestR17_SilenceOfClientsWithTheirDefaults(t *testing.T) {
	t.Parallel()
	kills, partitions := many(t, "TIDEMARK_CHAOS_DEFAULT_KILLS", 2), int32(4)
	c := startCluster(t, options{})
	c.create("defaults", partitions, tiers...)
	for _, m := range c.members { // by default a client gives a topic up that a broker has not heard of
		c.until(recovery, "every broker knows the topic", func() error {
			ps, err := c.topicOf(m, "defaults")
			if err == nil && len(ps) != int(partitions) {
				err = fmt.Errorf("broker %d knows %d partitions", m.id, len(ps))
			}
			return err
		})
	}
	clients := []defaultClient{c.franz("defaults", partitions), c.java("defaults", partitions)}
	flows := func() {
		t.Helper()
		for _, cl := range clients {
			c.until(2*recovery, cl.name()+" goes on", func() error {
				if !cl.flows() {
					return fmt.Errorf("a partition is silent for %v", cl.silence())
				}
				return nil
			})
		}
	}
	flows()
	silences := map[string][]time.Duration{}
	for n := range kills {
		c.until(recovery, "all replicas are in sync", func() error { return c.full("defaults") })
		v := c.leader("defaults", int32(n)%partitions)
		for _, cl := range clients {
			cl.mark()
		}
		flows()
		for _, cl := range clients {
			cl.mark()
		}
		v.kill()
		c.during(4 * time.Second) // others lead
		for _, cl := range clients {
			c.until(2*recovery, cl.name()+" goes on", func() error {
				if !cl.flows() || cl.silence() < time.Second {
					return fmt.Errorf("silent for %v", cl.silence())
				}
				return nil
			})
		}
		c.during(8 * time.Second) // longer than any back-off
		for _, cl := range clients {
			silences[cl.name()] = append(silences[cl.name()], cl.silence())
		}
		v.revive()
	}
	for name, all := range silences {
		slices.Sort(all)
		t.Logf("%s: %d kills, longest silence median %.1f s, worst %.1f s", name, len(all), all[len(all)/2].Seconds(), all[len(all)-1].Seconds())
	}
}

// franzClient is franz-go.
type franzClient struct {
	mu      sync.Mutex // guards what follows
	from    time.Time
	last    []time.Time // acknowledgement of each partition
	longest time.Duration
}

func (f *franzClient) name() string { return "franz-go" }

func (f *franzClient) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.from, f.longest = time.Now(), 0
}

func (f *franzClient) flows() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !slices.ContainsFunc(f.last, func(at time.Time) bool { return !at.After(f.from) })
}

func (f *franzClient) silence() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.longest
}

func (f *franzClient) acknowledged(partition int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, since := time.Now(), f.last[partition]
	if since.Before(f.from) {
		since = f.from
	}
	f.longest, f.last[partition] = max(f.longest, now.Sub(since)), now
}

// franz starts a producer with franz-go's defaults.
func (c *cluster) franz(topic string, partitions int32) defaultClient {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(c.t, err)
	f := &franzClient{from: time.Now(), last: make([]time.Time, partitions)}
	ctx, stop := context.WithCancel(context.Background())
	var sending sync.WaitGroup
	sending.Go(func() {
		pause := time.NewTicker(10 * time.Millisecond)
		defer pause.Stop()
		for n := int32(0); ctx.Err() == nil; n = (n + 1) % partitions {
			<-pause.C
			r := &kgo.Record{Topic: topic, Partition: n, Value: []byte("franz")}
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
				if err != nil {
					if ctx.Err() == nil {
						c.t.Errorf("franz-go: %v", err)
					}
					return
				}
				f.acknowledged(r.Partition)
			})
		}
	})
	c.t.Cleanup(func() { stop(); sending.Wait(); cl.Close() })
	return f
}

// javaClient is the Java client, a program that is asked by lines.
type javaClient struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func (j *javaClient) ask(word string) string {
	j.t.Helper()
	_, err := fmt.Fprintln(j.in, word)
	require.NoError(j.t, err)
	line, err := j.out.ReadString('\n')
	require.NoError(j.t, err)
	return strings.TrimSpace(line)
}

func (j *javaClient) name() string { return "Java" }
func (j *javaClient) mark()        { j.ask("mark") }
func (j *javaClient) flows() bool  { return j.ask("flows") == "true" }

func (j *javaClient) silence() time.Duration {
	ms, err := strconv.Atoi(j.ask("silence"))
	require.NoError(j.t, err)
	return time.Duration(ms) * time.Millisecond
}

// java starts integration/clients/java's Silence.
func (c *cluster) java(topic string, partitions int32) defaultClient {
	c.t.Helper()
	cmd := exec.Command("java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", harness.JavaClasses(c.t), "tidemark.client.Silence")
	cmd.Env = append(os.Environ(), "BOOTSTRAP="+strings.Join(c.seeds, ","), "TOPIC="+topic, fmt.Sprint("PARTITIONS=", partitions))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var faults strings.Builder
	cmd.Stderr = &faults
	in, err := cmd.StdinPipe()
	require.NoError(c.t, err)
	answers, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	c.t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			c.t.Errorf("the Java client: %v: %s", err, faults.String())
		}
	})
	return &javaClient{t: c.t, in: in, out: bufio.NewReader(answers)}
}
