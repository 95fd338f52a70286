package main

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// endToEnd runs a producer and a consumer of the same topic in this process. Without a rate it finds the peak of both at
// once. With one, each record carries the time at which it was due, and its latency is counted from then to the moment that
// the consumer holds it: a producer that falls behind does not hide it.
func (j job) endToEnd(ctx context.Context) (measure, error) {
	producer, err := j.producer(kgo.ProducerLinger(time.Millisecond))
	if err != nil {
		return measure{}, err
	}
	defer producer.Close()
	consumer, err := j.consumer(kgo.NewOffset().AtEnd(), kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return measure{}, err
	}
	defer consumer.Close()
	e := &endToEnd{job: j, producer: producer, consumer: consumer, zero: time.Now()}
	m, err := j.timed(ctx, e.total, e.run)
	if j.row.Kind == kindLatency {
		m.Latency = &e.window
	}
	return m, err
}

type endToEnd struct {
	job
	producer, consumer *kgo.Client
	zero               time.Time // records carry nanoseconds since it
	records            atomic.Int64

	mu           sync.Mutex // guards what follows
	seen, window latencies  // since total was last called; between its last two calls
}

func (e *endToEnd) total() (records, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.window, e.seen = e.seen, latencies{}
	return e.records.Load(), e.records.Load() * int64(e.row.Size)
}

func (e *endToEnd) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- e.consume(ctx) }()
	go func() { ended <- e.produce(ctx) }()
	err := <-ended
	cancel()
	<-ended
	return err
}

func (e *endToEnd) consume(ctx context.Context) error {
	for ctx.Err() == nil {
		got := e.consumer.PollFetches(ctx)
		if err := got.Err0(); err != nil && ctx.Err() == nil {
			return err
		}
		now := time.Since(e.zero)
		e.mu.Lock()
		got.EachRecord(func(r *kgo.Record) {
			e.seen.add(now - time.Duration(binary.BigEndian.Uint64(r.Value)))
			e.records.Add(1)
		})
		e.mu.Unlock()
	}
	return nil
}

// produce sends what is due, a millisecond's records at a time, or all that the client takes.
func (e *endToEnd) produce(ctx context.Context) error {
	var fault atomic.Pointer[error]
	acked := func(_ *kgo.Record, err error) {
		if err != nil && !errors.Is(err, context.Canceled) {
			fault.CompareAndSwap(nil, &err)
		}
	}
	began := time.Since(e.zero)
	for sent := int64(0); ctx.Err() == nil; sent++ {
		due := time.Since(e.zero)
		if e.rate > 0 {
			due = began + time.Duration(float64(sent)/e.rate*1e9)
			if wait := due - time.Since(e.zero); wait > time.Millisecond {
				time.Sleep(wait)
			}
		}
		value := make([]byte, e.row.Size)
		copy(value, e.values[int(sent)%len(e.values)])
		binary.BigEndian.PutUint64(value, uint64(due))
		e.producer.Produce(ctx, &kgo.Record{Value: value}, acked)
		if f := fault.Load(); f != nil {
			return *f
		}
	}
	return nil
}
