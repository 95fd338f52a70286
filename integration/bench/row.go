package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// kind is what a row measures.
type kind string

const (
	kindProduce kind = "produce"
	kindConsume kind = "consume"
	kindMixed   kind = "produce and consume at once"
	kindLatency kind = "latency"
	kindAcks    kind = "ack latency"
)

// row is one line of the table: a workload that both brokers are given.
type row struct {
	Name       string
	Kind       kind
	Client     string // raw, librdkafka, franz-go, java
	Size       int    // bytes of a record's value
	Partitions int
	Acks       string // all, 1
	Codec      string
	Share      float64 // of the slower peer's peak: kindLatency, kindAcks
	Of         string  // the row that gives that peak
	Idempotent bool    // raw and librdkafka number their batches; franz-go always does, unless acks=1
	Side       bool    // varies one thing of a main row; fewer runs
	// Topic is told to Tidemark's topic alone.
	Topic map[string]string
}

// measure is what one run of a row gave.
type measure struct {
	Records, Bytes int64
	Seconds        float64
	CPU            float64 // seconds of the broker over the counted time
	Peak           int64   // resident bytes of the broker, highest
	Latency        *latencies
}

func (m measure) mbps() float64 { return float64(m.Bytes) / 1e6 / m.Seconds }

// cpuPerGB is in seconds per 10^9 bytes of values.
func (m measure) cpuPerGB() float64 { return m.CPU / (float64(m.Bytes) / 1e9) }

// window brackets the counted part of a run with readings of the broker's CPU.
type window struct {
	peer   *peer
	before time.Duration
	began  time.Time
	err    error
}

func (w *window) begin() {
	w.peer.procs.forgetPeak()
	w.before, w.err = w.peer.procs.cpu()
	w.began = time.Now()
}

// end closes the window. took is what the client measured; 0: as measured here.
func (w *window) end(records, bytes int64, took time.Duration) (measure, error) {
	if took == 0 {
		took = time.Since(w.began)
	}
	after, err := w.peer.procs.cpu()
	if p := w.peer.procs.ended(); p != nil {
		return measure{}, fmt.Errorf("%s has ended during the run: %s", w.peer.name, tail(p.log))
	}
	if err := errors.Join(w.err, err); err != nil {
		return measure{}, fmt.Errorf("%s: its CPU cannot be read: %w", w.peer.name, err)
	}
	if bytes == 0 {
		return measure{}, fmt.Errorf("%s: nothing was counted", w.peer.name)
	}
	return measure{
		Records: records, Bytes: bytes, Seconds: took.Seconds(), CPU: (after - w.before).Seconds(),
		Peak: w.peer.procs.status("VmHWM"),
	}, nil
}

// job is one run: a row on a peer's topic.
type job struct {
	row   row
	peer  *peer
	topic string
	rate  float64 // records a second: kindLatency, kindAcks
	s     settings
	jars  string
	// values is the payload, and file holds the same, each value with a line feed.
	values [][]byte
	file   string
}

// run does the job with its client.
func (j job) run(ctx context.Context) (measure, error) {
	switch {
	case j.row.Kind == kindMixed || j.row.Kind == kindLatency:
		return j.endToEnd(ctx)
	case j.row.Kind == kindAcks:
		return j.ackLatency(ctx)
	case j.row.Client == "librdkafka":
		return j.librdkafka(ctx)
	case j.row.Client == "java":
		return j.java(ctx)
	case j.row.Kind == kindProduce && j.row.Client == "raw":
		return j.produceRaw(ctx)
	case j.row.Kind == kindProduce:
		return j.produceFranz(ctx)
	case j.row.Client == "raw":
		return j.consumeRaw(ctx)
	}
	return j.consumeFranz(ctx)
}

// timed counts what total says between the end of the ramp and the end of the run, while work runs until its context ends.
func (j job) timed(ctx context.Context, total func() (records, bytes int64), work func(context.Context) error) (measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	w := window{peer: j.peer}
	if err := pause(ctx, done, j.s.Ramp); err != nil {
		return measure{}, err
	}
	records, bytes := total()
	w.begin()
	if err := pause(ctx, done, j.s.Seconds); err != nil {
		return measure{}, err
	}
	moreRecords, moreBytes := total()
	m, err := w.end(moreRecords-records, moreBytes-bytes, 0)
	cancel()
	<-done
	return m, err
}

// pause waits, unless the work ends before its time.
func pause(ctx context.Context, done <-chan error, seconds float64) error {
	select {
	case err := <-done:
		if err == nil {
			err = fmt.Errorf("the client has ended early")
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(seconds * float64(time.Second))):
		return nil
	}
}
