package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
)

// load is an idempotent producer that runs beside what a test does to the broker. Its values are unique.
type load struct {
	t      *testing.T
	n      *harness.Node
	topic  string
	log    *checker.Log
	client *kgo.Client

	stop   chan struct{}
	done   sync.WaitGroup
	serial atomic.Int64
	last   atomic.Int64 // when a record was acknowledged last, in ns since 1970

	mu     sync.Mutex
	failed error
}

// pour starts a load of about 1,000 records of size bytes a second.
func pour(t *testing.T, n *harness.Node, topic string, size int) *load {
	l := &load{t: t, n: n, topic: topic, log: checker.NewLog(), stop: make(chan struct{})}
	l.client = n.Client(t, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(2000), kgo.RecordDeliveryTimeout(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(16<<10))
	l.done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
			}
			for range 10 {
				l.send(size)
			}
		}
	})
	return l
}

func (l *load) send(size int) {
	id := l.serial.Add(1)
	value := make([]byte, 0, size)
	value = fmt.Appendf(value, "%d ", id)
	for len(value) < size {
		value = append(value, byte('a'+rand.IntN(26)))
	}
	l.log.Produce(l.client, &kgo.Record{Key: fmt.Appendf(nil, "key-%d", id%1000), Value: value}, func(err error) {
		if err == nil {
			l.last.Store(time.Now().UnixNano())
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.failed = errors.Join(l.failed, fmt.Errorf("record %d: %w", id, err))
	})
}

// end stops the load, waits until every record is acknowledged, and fails the test if one was refused.
func (l *load) end(limit time.Duration) {
	l.t.Helper()
	close(l.stop)
	l.done.Wait()
	require.NoError(l.t, l.client.Flush(within(l.t, limit)), "records were not acknowledged")
	l.mu.Lock()
	defer l.mu.Unlock()
	require.NoError(l.t, l.failed)
	require.EqualValues(l.t, l.serial.Load(), l.log.Count(), "every record that was sent is acknowledged")
}

// flows waits until a record that was sent from now on is acknowledged.
func (l *load) flows(limit time.Duration, what string) {
	l.t.Helper()
	now := time.Now().UnixNano()
	harness.Until(l.t, limit, what, func() error {
		if l.last.Load() <= now {
			return errors.New("no record was acknowledged")
		}
		return nil
	})
}

// goesOn waits until so many more records are acknowledged.
func (l *load) goesOn(records int) {
	l.t.Helper()
	enough := l.log.Count() + records
	harness.Until(l.t, 2*time.Minute, "produce goes on", func() error {
		if got := l.log.Count(); got < enough {
			return fmt.Errorf("%d records of %d", got, enough)
		}
		return nil
	})
}

// verify compares what is there with what was acknowledged.
func (l *load) verify() {
	l.t.Helper()
	require.NoError(l.t, l.log.Verify(within(l.t, 3*time.Minute), l.n.Kafka, l.topic))
}

// agree waits until the bucket holds exactly what the catalog names.
func agree(t *testing.T, n *harness.Node, stores harness.Stores) {
	t.Helper()
	harness.Until(t, 3*time.Minute, "bucket and catalog agree", func() error {
		return checker.Agree(t.Context(), n, stores.Bucket)
	})
}

// drained waits until all but the last records of every partition are tiered.
func drained(t *testing.T, n *harness.Node, topic string) {
	t.Helper()
	harness.Until(t, 3*time.Minute, "all sealed segments are tiered", func() error {
		tier, err := n.Tier(topic)
		if err != nil {
			return err
		}
		for _, p := range tier.Partitions {
			if p.Upload == nil || p.Upload.Stalled != "" {
				return fmt.Errorf("partition %d: uploads stand: %+v", p.Partition, p.Upload)
			}
			if p.Tiered < p.LocalStart || p.Tiered == p.Start && p.LogEnd > p.Start+1000 {
				return fmt.Errorf("partition %d: tiered %d, localStart %d, end %d", p.Partition, p.Tiered, p.LocalStart, p.LogEnd)
			}
		}
		return nil
	})
}

// small is the configuration of a topic that rolls, tiers and frees all the time.
var small = []string{"segment.bytes", "131072", "local.retention.bytes", "131072", "retention.ms", "-1"}
