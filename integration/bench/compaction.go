package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compactionLine is a stream, and what each broker made of it, in the order of the runs.
type compactionLine struct {
	Stream        string
	Segment       int // segment.bytes
	Records, Keys int
	Bytes         int64 // of keys and values
	Runs          map[string][]cleaned
}

// cleaned is one run: all of a topic was new to the cleaner, and is clean at the end.
type cleaned struct {
	Seconds       float64 // in passes, by the cleaner's own log
	Wall          float64 // from the moment from which cleaning was allowed to the end of the last pass
	CPU, Whole    float64 // seconds of the process meanwhile; and from the first record on
	Read, Written int64   // bytes, by the cleaner's own figures
	Passes, Left  int     // Left: records that a consumer then reads
}

const (
	compactionRuns = 3
	// compactionBudget is how long after its beginning no round begins.
	compactionBudget = 150 * time.Second
	compactionLimit  = 3 * time.Minute // of one step
	// sealKey is the key of the record that makes those before it cleanable.
	sealKey = "seal"
)

// compaction gives the same streams to the cleaners of both, in turn. Each topic is filled while its dirty ratio forbids
// cleaning; then all of it is cleanable at once.
func (b *bench) compaction(ctx context.Context) error {
	began := time.Now()
	streams, err := keyedStreams(b.s)
	if err != nil {
		return err
	}
	all, err := b.cleaners()
	if err != nil {
		return err
	}
	defer func() {
		for _, c := range all {
			if c.procs != nil {
				c.stop(syscall.SIGTERM)
			}
		}
	}()
	for _, c := range all {
		if _, err := c.start(ctx); err != nil {
			return err
		}
	}
	for _, s := range streams {
		b.report.Compaction = append(b.report.Compaction,
			&compactionLine{Stream: s.Name, Segment: s.Segment, Records: s.Records, Keys: s.Keys, Bytes: s.Bytes, Runs: map[string][]cleaned{}})
	}
	for round := range min(compactionRuns, b.s.Runs) {
		if time.Since(began) > compactionBudget {
			return nil
		}
		for i, s := range streams {
			for _, c := range all {
				topic := fmt.Sprintf("compaction-%d-%d", i, round)
				m, err := b.clean(ctx, c, topic, s)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", s.Name, c.name, err)
				}
				l := b.report.Compaction[i]
				l.Runs[c.name] = append(l.Runs[c.name], m)
				b.say("compaction, %s, %s: %.0f MB/s, CPU %.2f s (with the load %.2f s), wall %.2f s, read %d MB, wrote %d MB, %d records left",
					s.Name, c.name, l.mbps(m), m.CPU, m.Whole, m.Wall, m.Read/1e6, m.Written/1e6, m.Left)
			}
		}
		slices.Reverse(all)
	}
	return nil
}

// mbps is MB of the stream's keys and values a second in passes.
func (l *compactionLine) mbps(m cleaned) float64 { return float64(l.Bytes) / 1e6 / m.Seconds }

// clean is one run on a topic of its own.
func (b *bench) clean(ctx context.Context, c *cleaner, topic string, s *keyedStream) (m cleaned, err error) {
	ctx, cancel := context.WithTimeout(ctx, compactionLimit)
	defer cancel()
	err = c.create(ctx, topic, 1, map[string]string{
		"cleanup.policy": "compact", "segment.bytes": fmt.Sprint(s.Segment), "min.compaction.lag.ms": "0",
		"min.cleanable.dirty.ratio": "1", // no share of new data is more than all of it
	})
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, c.remove(ctx, topic)) }()
	if err := errors.Join(c.settle(ctx), b.ballast.fill()); err != nil {
		return m, err
	}
	first, err := c.procs.cpu()
	if err != nil {
		return m, err
	}
	j := job{row: row{Size: 1024, Partitions: 1, Codec: "none"}, peer: c.peer, s: b.s, topic: topic}
	if err := j.produceKeyed(ctx, s.each); err != nil {
		return m, err
	}
	if err := c.seal(ctx, j); err != nil {
		return m, err
	}
	if err := c.settle(ctx); err != nil {
		return m, err
	}
	before, err := c.procs.cpu()
	if err != nil {
		return m, err
	}
	m, err = c.watch(ctx, j, s)
	m.Whole = m.CPU + (before - first).Seconds()
	return m, err
}

// produceKeyed produces all records, as large batches of one partition.
func (j job) produceKeyed(ctx context.Context, each func(yield func(key, value []byte) bool)) error {
	client, err := j.producer(kgo.ProducerBatchMaxBytes(100<<10), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	each(func(key, value []byte) bool {
		client.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
		return failed.Load() == nil
	})
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if f := failed.Load(); f != nil {
		return fmt.Errorf("produce: %w", *f)
	}
	return nil
}
