package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/checker"
	"tidemark/integration/history"
)

// workload is clients that produce to and consume from a topic while a test hurts the cluster.
type workload struct {
	t          *testing.T
	c          *cluster
	topic      string
	partitions int32
	h          *history.History

	producers []*kgo.Client
	groups    [][]string // consumers that must get everything, by themselves or between them
	stop      context.CancelFunc
	producing sync.WaitGroup
	consuming sync.WaitGroup
	quiet     context.CancelFunc // ends the consumers

	mu       sync.Mutex
	trouble  map[string]int // errors that consumers were shown, by text
	answered atomic.Int64   // acknowledgements, for waiting
}

// load says how much a workload does.
type load struct {
	producers int
	pace      time.Duration // between two records of a producer
	burst     int           // records at each
	assigned  int           // consumers that read all partitions by themselves
	members   int           // members of a consumer group
	keyed     bool          // each record has a key of its own
}

// usual is the load of most scenarios: about 1,200 records of 200 bytes a second.
var usual = load{producers: 3, pace: 10 * time.Millisecond, burst: 4, assigned: 1, members: 2}

// work starts a workload on a topic that exists and is empty.
func (c *cluster) work(topic string, partitions int32, l load) *workload {
	c.t.Helper()
	w := &workload{t: c.t, c: c, topic: topic, partitions: partitions, h: history.New(), trouble: map[string]int{}}
	var ctx, reading context.Context
	ctx, w.stop = context.WithCancel(c.t.Context())
	reading, w.quiet = context.WithCancel(c.t.Context())
	for i := range l.assigned {
		w.assign(reading, fmt.Sprintf("reader-%d", i))
	}
	var members []string
	for i := range l.members {
		members = append(members, fmt.Sprintf("member-%d", i))
		w.join(reading, members[i])
	}
	if len(members) > 0 {
		w.groups = append(w.groups, members)
	}
	for i := range l.producers {
		cl := c.client(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(2*time.Millisecond), kgo.MaxBufferedRecords(4000),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordDeliveryTimeout(0),
			kgo.ProduceRequestTimeout(3*time.Second))
		w.producers = append(w.producers, cl)
		w.producing.Go(func() { w.produce(ctx, cl, int32(i), l) })
	}
	// Before the clients are closed, and if the test fails on its way.
	c.t.Cleanup(func() { w.stop(); w.quiet(); w.consuming.Wait() })
	return w
}

func (w *workload) partition(n int32) history.Partition {
	return history.Partition{Topic: w.topic, Partition: n}
}

// produce sends to the partitions in turn until ctx ends. A full buffer holds it up.
func (w *workload) produce(ctx context.Context, cl *kgo.Client, id int32, l load) {
	tick := time.NewTicker(l.pace)
	defer tick.Stop()
	filling := strings.Repeat("x", 180)
	for n := int32(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range l.burst {
			n = (n + 1) % w.partitions
			p := w.partition(n)
			v := w.h.Sent(id, p)
			r := &kgo.Record{Topic: w.topic, Partition: n, Value: fmt.Appendf(nil, "%d %d %s", v.Producer, v.Seq, filling)}
			if l.keyed {
				r.Key = fmt.Appendf(nil, "%d %d", v.Producer, v.Seq)
			}
			// The record outlives ctx: what was sent is waited for.
			cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
				switch {
				case err == nil:
					w.h.Acked(p, r.Offset, v, time.Now())
					w.answered.Add(1)
				case !errors.Is(err, kgo.ErrClientClosed):
					w.h.Refused(p, v, err)
				}
			})
		}
	}
}

func valueOf(r *kgo.Record) (v history.Value) {
	if _, err := fmt.Sscan(string(r.Value), &v.Producer, &v.Seq); err != nil {
		return history.Value{Producer: -1, Seq: -1}
	}
	return v
}

// assign starts a consumer that reads all partitions from 0.
func (w *workload) assign(ctx context.Context, name string) {
	from := map[int32]kgo.Offset{}
	for n := range w.partitions {
		from[n] = kgo.NewOffset().At(0)
	}
	cl := w.c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topic: from}), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(500*time.Millisecond))
	w.groups = append(w.groups, []string{name})
	w.consuming.Go(func() { w.poll(ctx, cl, name, nil) })
}

// join starts a member of the group. It commits after each poll what it was given.
func (w *workload) join(ctx context.Context, name string) {
	cl := w.c.client(kgo.ConsumerGroup(w.topic+"-group"), kgo.ConsumeTopics(w.topic), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, given map[string][]int32) {
			for _, n := range given[w.topic] {
				w.h.Placed(name, w.partition(n), -1)
			}
		}))
	w.consuming.Go(func() {
		w.poll(ctx, cl, name, func() {
			commit, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			_ = cl.CommitUncommittedOffsets(commit) // what is not committed is read again by whoever comes next
			cl.AllowRebalance()
		})
	})
}

// poll notes what a consumer gets until ctx ends.
func (w *workload) poll(ctx context.Context, cl *kgo.Client, name string, after func()) {
	for ctx.Err() == nil {
		fs := cl.PollFetches(ctx)
		fs.EachError(func(_ string, partition int32, err error) {
			if ctx.Err() == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.trouble[fmt.Sprintf("%s: %s/%d: %v", name, w.topic, partition, err)]++
			}
		})
		fs.EachRecord(func(r *kgo.Record) { w.h.Polled(name, w.partition(r.Partition), r.Offset, valueOf(r)) })
		if after != nil {
			after()
		}
	}
}

// flows waits until every partition has acknowledged something sent from now on.
func (w *workload) flows(limit time.Duration, what string) time.Duration {
	w.t.Helper()
	now := time.Now()
	return w.c.until(limit, what, func() error {
		for n := range w.partitions {
			if last := w.h.LastAck(w.partition(n)); !last.After(now) {
				return fmt.Errorf("%s/%d acknowledged nothing", w.topic, n)
			}
		}
		return nil
	})
}

// end stops the workload after the faults, waits until the cluster has recovered and all clients have come to the end, and
// judges.
func (w *workload) end() {
	w.t.Helper()
	w.c.heal()
	w.flows(recovery, "all partitions take records again")
	full := w.c.until(recovery, "all replicas are in sync", func() error { return w.c.full(w.topic) })
	w.stop()
	w.producing.Wait()
	w.flush()
	ends := w.ends()
	caught := w.c.until(recovery, "all consumers come to the end", func() error { return w.caughtUp(ends) })
	w.quiet()
	w.consuming.Wait()
	w.read()
	verdict := w.h.Judge(w.groups...)
	w.t.Logf("%d records acknowledged; in sync after %v, consumers at the end after %v", w.h.Count(), full.Round(time.Millisecond), caught.Round(time.Millisecond))
	require.Empty(w.t, verdict.Counts, "%s", verdict)
	w.mu.Lock()
	defer w.mu.Unlock()
	for text, n := range w.trouble {
		w.t.Logf("%d times: %s", n, text)
	}
}

// recovery is how long everything may take to be well again after the last fault.
const recovery = 3 * time.Minute

// flush waits until all that was sent is acknowledged.
func (w *workload) flush() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), recovery)
	defer cancel()
	for i, cl := range w.producers {
		require.NoError(w.t, cl.Flush(ctx), "producer %d: %d records are not acknowledged", i, cl.BufferedProduceRecords())
	}
}

func (w *workload) ends() map[int32]int64 {
	w.t.Helper()
	out := map[int32]int64{}
	w.c.until(recovery, "the end offsets", func() error {
		ctx, cancel := context.WithTimeout(w.t.Context(), 15*time.Second)
		defer cancel()
		ends, err := w.c.adm.ListEndOffsets(ctx, w.topic)
		if err == nil {
			err = ends.Error()
		}
		for n, o := range ends[w.topic] {
			out[n] = o.Offset
		}
		return err
	})
	return out
}

func (w *workload) caughtUp(ends map[int32]int64) error {
	for _, g := range w.groups {
		for n, end := range ends {
			reached := int64(0)
			for _, name := range g {
				reached = max(reached, w.h.Reached(name, w.partition(n)))
			}
			if reached < end {
				return fmt.Errorf("%v: %s/%d: at %d of %d", g, w.topic, n, reached, end)
			}
		}
	}
	return nil
}

// read gives the history what is there at the end.
func (w *workload) read() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute)
	defer cancel()
	err := checker.ReadAll(ctx, w.c.seeds[0], w.topic, func(p checker.Partition, start, _ int64, records []*kgo.Record) {
		if start != 0 {
			w.t.Errorf("%s/%d starts at %d", p.Topic, p.Partition, start)
		}
		for _, r := range records {
			w.h.Found(history.Partition(p), r.Offset, valueOf(r))
		}
	})
	require.NoError(w.t, err)
}
