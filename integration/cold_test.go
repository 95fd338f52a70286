package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"tidemark/integration/harness"
	"tidemark/integration/rawclient"
	"tidemark/integration/s3proxy"
	"tidemark/record"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/s3"
)

const coldReaders = 8

// Eight consumers replay a topic that is in the bucket only, each a partition, over and over, beside a producer at a steady
// rate. All consumers get their share, and the producer hardly feels them. The figures in docs/proof.md are from
// TIDEMARK_COLD_SPAN=20s TIDEMARK_COLD_MIB=1024.
func TestL9_ColdConsumersBesideAProducer(t *testing.T) {
	span, err := time.ParseDuration(setting("TIDEMARK_COLD_SPAN", "3s"))
	require.NoError(t, err)
	mib, err := strconv.Atoi(setting("TIDEMARK_COLD_MIB", "128"))
	require.NoError(t, err)
	stores := harness.RealStores(t)
	// Past the proxy, which is made for faults and not for speed.
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_OBJECT_STORE_URL": stores.DirectURL, "TIDEMARK_LOG_LEVEL": "info"}})
	fillCold(t, n, mib)
	n.CreateTopic(t, "hot", 1)
	pr := &paced{t: t, cl: n.Client(t, kgo.DefaultProduceTopic("hot"), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))}
	pr.measure(span / 3) // warm
	alone := pr.measure(span)

	ctx, stop := context.WithCancel(t.Context())
	var read [coldReaders]atomic.Int64
	var readers sync.WaitGroup
	for p := range int32(coldReaders) {
		readers.Go(func() {
			if err := replayCold(ctx, n.Kafka, p, &read[p]); err != nil && ctx.Err() == nil {
				t.Errorf("consumer %d: %v", p, err)
			}
		})
	}
	gets := n.Metric("tidemark_objstore_requests_total")
	began := time.Now()
	shares := func() (least, most, sum int64) {
		least = math.MaxInt64
		for p := range read {
			v := read[p].Load()
			least, most, sum = min(least, v), max(most, v), sum+v
		}
		return least, most, sum
	}
	beside := pr.measure(span)
	// Shares are compared when each is more than a few answers.
	harness.Until(t, 3*time.Minute, "every consumer has its share", func() error {
		if least, _, _ := shares(); least < 16<<20 {
			beside = append(beside, pr.measure(span/3)...)
			return fmt.Errorf("one has read %d bytes", least)
		}
		return nil
	})
	slices.Sort(beside)
	took := time.Since(began).Seconds()
	stop()
	readers.Wait()
	least, most, sum := shares()
	t.Logf("produce alone p50 %v p99 %v; beside %d cold consumers p50 %v p99 %v (%.2f times)", alone.at(0.5), alone.at(0.99), coldReaders,
		beside.at(0.5), beside.at(0.99), float64(beside.at(0.99))/float64(alone.at(0.99)))
	t.Logf("cold consumers: %.0f MB/s together, least %d MB, most %d MB, %.1f MiB a request", float64(sum)/1e6/took, least/1e6, most/1e6,
		float64(sum)/(1<<20)/max(1, n.Metric("tidemark_objstore_requests_total")-gets))
	require.LessOrEqual(t, most, 4*least, "turns are given to connections")
	require.Less(t, beside.at(0.99), max(2*time.Second, 10*alone.at(0.99)), "producers are served whatever cold consumers do")
}

// A store that gives 150 MB/s, 20 ms after each request: eight replays with empty caches get what a bare client with eight
// requests of 8 MiB at a time gets, and ask for 4 MiB with each; the test allows 2, for a machine at load 40 came to 2.9.
func TestColdReplayKeepsUpWithTheStore(t *testing.T) {
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_LOG_LEVEL": "info"}})
	fillCold(t, n, 256)
	n.Kill()
	n.DropCache()
	n.Start()
	slow := &link{rate: 150e6}
	stores.S3.Add(s3proxy.Rule{Match: getSegment, Delay: 20 * time.Millisecond, Edit: func(r *http.Response) { r.Body = slow.limit(r.Body) }})
	through, err := url.Parse(stores.ObjectsURL)
	require.NoError(t, err)
	bucket, err := s3.Open(t.Context(), through)
	require.NoError(t, err)
	defer bucket.Close()
	bare, took := bareRead(t, bucket)
	bareRate := float64(bare) / took.Seconds()

	stores.S3.Forget()
	var read [coldReaders]atomic.Int64
	var readers sync.WaitGroup
	began := time.Now()
	for p := range int32(coldReaders) {
		readers.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			end := n.Offset(t, "cold", p, harness.Latest)
			if err := replayUntil(ctx, n.Kafka, p, end, &read[p]); err != nil {
				t.Errorf("consumer %d: %v", p, err)
			}
		})
	}
	readers.Wait()
	sum := int64(0)
	for p := range read {
		sum += read[p].Load()
	}
	rate, gets := float64(sum)/time.Since(began).Seconds(), stores.S3.Count(getSegment)
	t.Logf("bare client %.0f MB/s, replay %.0f MB/s (%.0f %%), %.2f MiB a GET", bareRate/1e6, rate/1e6, 100*rate/bareRate, float64(sum)/(1<<20)/float64(gets))
	require.GreaterOrEqual(t, rate, bareRate/4, "less is more than noise explains")
	require.LessOrEqual(t, float64(gets), float64(sum)/(2<<20), "requests are large")
}

// link is a connection of some bytes a second that all bodies share.
type link struct {
	rate float64
	mu   sync.Mutex
	free time.Time
}

type limited struct {
	io.ReadCloser
	l *link
}

func (l *link) limit(body io.ReadCloser) io.ReadCloser { return limited{body, l} }

func (r limited) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p[:min(len(p), 64<<10)])
	r.l.mu.Lock()
	if now := time.Now(); r.l.free.Before(now) {
		r.l.free = now
	}
	r.l.free = r.l.free.Add(time.Duration(float64(n) / r.l.rate * float64(time.Second)))
	wait := time.NewTimer(time.Until(r.l.free))
	r.l.mu.Unlock()
	<-wait.C
	return n, err
}

// bareRead reads all segments, eight ranges of 8 MiB at a time.
func bareRead(t *testing.T, bucket objstore.Store) (size int64, took time.Duration) {
	t.Helper()
	all, err := bucket.List(t.Context(), "segments/", "", 10_000)
	require.NoError(t, err)
	began := time.Now()
	var g errgroup.Group
	g.SetLimit(coldReaders)
	for _, o := range all {
		for at := int64(0); at < o.Size; at += 8 << 20 {
			g.Go(func() error { return bucket.ReadRange(t.Context(), o.Key, at, make([]byte, min(8<<20, o.Size-at))) })
		}
		size += o.Size
	}
	require.NoError(t, g.Wait())
	return size, time.Since(began)
}

// fillCold fills a topic of a partition a reader and waits until nothing of it is local.
func fillCold(t *testing.T, n *harness.Node, mib int) {
	t.Helper()
	n.CreateTopic(t, "cold", coldReaders, "local.retention.bytes", "1", "retention.ms", "-1", "remote.copy.max.delay.ms", "5000")
	cl := n.Client(t, kgo.DefaultProduceTopic("cold"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := make([]byte, 8<<10)
	for i := range mib << 7 {
		copy(value, fmt.Sprint(i))
		cl.Produce(t.Context(), &kgo.Record{Value: slices.Clone(value)}, nil)
	}
	require.NoError(t, cl.Flush(within(t, 5*time.Minute)))
	harness.Until(t, 5*time.Minute, "all of it is cold", func() error {
		for p := range int32(coldReaders) {
			if local, end := n.Offset(t, "cold", p, harness.LocalStart), n.Offset(t, "cold", p, harness.Latest); local < end {
				return fmt.Errorf("partition %d: localStart %d of %d", p, local, end)
			}
		}
		return nil
	})
}

// replayCold reads one partition again and again and looks at no record.
func replayCold(ctx context.Context, address string, partition int32, read *atomic.Int64) error {
	for ctx.Err() == nil {
		if err := replayUntil(ctx, address, partition, math.MaxInt64, read); err != nil {
			return err
		}
	}
	return nil
}

// replayUntil reads one partition from its start to an offset or its end.
func replayUntil(ctx context.Context, address string, partition int32, until int64, read *atomic.Int64) error {
	c, err := rawclient.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer c.Close()
	for at := int64(0); at < until && ctx.Err() == nil; {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = 12, 500, 1, 50<<20, -1
		topic, p := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, at, 1<<20
		topic.Topic, topic.Partitions = "cold", append(topic.Partitions, p)
		req.Topics = append(req.Topics, topic)
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return fmt.Errorf("fetch at %d: %w", at, err)
		}
		read.Add(int64(len(got.RecordBatches)))
		if at = nextAfter(got.RecordBatches, at); at >= got.HighWatermark {
			break
		}
	}
	return nil
}

// nextAfter is the offset behind the whole batches in b.
func nextAfter(b []byte, at int64) int64 {
	for {
		h, err := record.ParseHeader(b)
		if err != nil || h.Size() > len(b) {
			return at
		}
		at, b = int64(h.NextOffset()), b[h.Size():]
	}
}

// paced produces 500 records of 1 KiB a second, each on its own.
type paced struct {
	t  *testing.T
	cl *kgo.Client
}

// latencies are sorted.
type latencies []time.Duration

func (l latencies) at(q float64) time.Duration { return l[min(len(l)-1, int(q*float64(len(l))))] }

// measure returns how long each acknowledgement took, counted from when its record was due.
func (p *paced) measure(span time.Duration) latencies {
	p.t.Helper()
	const every = 2 * time.Millisecond
	var mu sync.Mutex
	var all latencies
	var failed error
	value, began := make([]byte, 1024), time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; time.Duration(i)*every < span; {
		<-tick.C
		for ; time.Duration(i)*every < min(span, time.Since(began)); i++ {
			due := began.Add(time.Duration(i) * every)
			p.cl.Produce(p.t.Context(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				took := time.Since(due)
				mu.Lock()
				defer mu.Unlock()
				all, failed = append(all, took), errors.Join(failed, err)
			})
		}
	}
	require.NoError(p.t, p.cl.Flush(within(p.t, 3*time.Minute)))
	require.NoError(p.t, failed)
	slices.Sort(all)
	return all
}
