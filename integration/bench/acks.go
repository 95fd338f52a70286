package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ackLatency produces at a rate; a record's latency is counted from the moment at which it is due to the moment at which
// its acknowledgement is there: a producer that falls behind does not hide it.
func (j job) ackLatency(ctx context.Context) (measure, error) {
	client, err := j.producer(kgo.ProducerLinger(time.Millisecond))
	if err != nil {
		return measure{}, err
	}
	defer client.Close()
	a := &acks{job: j, client: client}
	m, err := j.timed(ctx, a.total, a.run)
	m.Latency = &a.window
	return m, err
}

type acks struct {
	job
	client *kgo.Client
	fault  atomic.Pointer[error]

	mu           sync.Mutex // guards what follows
	records      int64
	seen, window latencies // since total was last called; between its last two calls
}

func (a *acks) total() (records, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.window, a.seen = a.seen, latencies{}
	return a.records, a.records * int64(a.row.Size)
}

// run sends what is due, a millisecond's records at a time.
func (a *acks) run(ctx context.Context) error {
	began := time.Now()
	for sent := 0; ctx.Err() == nil; sent++ {
		due := began.Add(time.Duration(float64(sent) / a.rate * 1e9))
		if wait := time.Until(due); wait > time.Millisecond {
			time.Sleep(wait)
		}
		a.client.Produce(ctx, &kgo.Record{Value: a.values[sent%len(a.values)]}, func(_ *kgo.Record, err error) { a.acked(due, err) })
		if f := a.fault.Load(); f != nil {
			return *f
		}
	}
	return nil
}

func (a *acks) acked(due time.Time, err error) {
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			a.fault.CompareAndSwap(nil, &err)
		}
		return
	}
	took := time.Since(due)
	a.mu.Lock()
	a.seen.add(took)
	a.records++
	a.mu.Unlock()
}
