package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// besideResult is how long acknowledgements took a producer alone and beside consumers that replay, a run each.
type besideResult struct {
	Alone, Beside []*latencies
	Cold          []float64 // MB/s of all consumers together
}

const (
	besideRate  = 1000 // records of 1 KiB a second
	besideTopic = "beside"
	// besideCaches have no room for what the consumers read in turn: every pass over the topic is cold.
	besideCaches, besideMemory = "TIDEMARK_CACHE_BYTES=64MiB", "TIDEMARK_CACHE_MEMORY=16MiB"
)

// beside measures a producer alone and beside a consumer of each partition of the cold topic, in turn. It goes on with a
// broker of its own on the folder of c's, which must have ended, and leaves it running.
func (b *bench) beside(ctx context.Context, c *coldRun) error {
	if err := c.gateway.through(ctx, false); err != nil {
		return err
	}
	p, err := b.tiered(c.gateway, besideCaches, besideMemory)
	if err != nil {
		return err
	}
	if _, err := p.start(ctx); err != nil {
		return err
	}
	c.peer = p
	if err := p.serves(ctx, c.topic, c.row.Partitions); err != nil {
		return err
	}
	if err := p.create(ctx, besideTopic, coldPartitions, map[string]string{"remote.storage.enable": "false"}); err != nil {
		return err
	}
	producer := c.job
	producer.topic, producer.rate, producer.row.Kind, producer.row.Client = besideTopic, besideRate, kindAcks, "franz-go"
	result := &besideResult{}
	b.report.Beside = result
	for range min(coldRuns, b.s.Runs) {
		if err := p.settle(ctx); err != nil {
			return err
		}
		alone, err := producer.run(ctx)
		if err != nil {
			return err
		}
		beside, rate, err := c.replaying(ctx, producer.run)
		if err != nil {
			return err
		}
		result.Alone, result.Beside = append(result.Alone, alone.Latency), append(result.Beside, beside.Latency)
		result.Cold = append(result.Cold, rate)
		b.say("ack latency alone p99 %v, beside %d cold consumers of %.0f MB/s together p99 %v",
			alone.Latency.quantile(0.99), coldPartitions, rate, beside.Latency.quantile(0.99))
	}
	return nil
}

// replaying runs something while a consumer of each partition reads the cold topic over and over; rate is their MB/s.
func (c *coldRun) replaying(ctx context.Context, run func(context.Context) (measure, error)) (m measure, rate float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var size atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- connections(ctx, slices.Repeat(c.peer.seeds(), c.row.Partitions), func(ctx context.Context, i int, conn *conn) error {
			for next := (map[int32]int64{int32(i): 0}); ctx.Err() == nil; {
				_, n, err := c.fetch(conn, next)
				if err != nil {
					return err
				}
				size.Add(n)
			}
			return nil
		})
	}()
	began := time.Now()
	m, err = run(ctx)
	rate = float64(size.Load()) / 1e6 / time.Since(began).Seconds()
	select {
	case failed := <-ended: // before it was told to
		return m, rate, fmt.Errorf("a cold consumer has ended: %w", failed)
	default:
	}
	cancel()
	<-ended
	return m, rate, err
}

// ratio is the median, over the runs, of a quantile beside the consumers over that alone.
func (r *besideResult) ratio(q float64) float64 {
	var all []float64
	for i := range r.Beside {
		all = append(all, float64(r.Beside[i].quantile(q))/float64(max(r.Alone[i].quantile(q), 1)))
	}
	return median(all)
}

// write is its table.
func (r *besideResult) write(b *strings.Builder, s settings) {
	if r == nil || len(r.Beside) == 0 {
		return
	}
	fmt.Fprintf(b, `A producer of %d records of 1 KiB a second (franz-go, acks=all) on the same broker, alone and beside %d consumers that replay that
topic over and over with caches that do not hold it (%.0f MB/s together): milliseconds from the moment at which a record is due to
its acknowledgement, medians of %d runs of %v s.

| | p50 | p99 | p99.9 |
|---|---|---|---|
`, besideRate, coldPartitions, median(r.Cold), len(r.Beside), s.Seconds)
	for _, of := range []struct {
		name string
		runs []*latencies
	}{{"alone", r.Alone}, {"beside cold consumers", r.Beside}} {
		fmt.Fprintf(b, "| %s |", of.name)
		for _, q := range []float64{0.5, 0.99, 0.999} {
			var all []float64
			for _, h := range of.runs {
				all = append(all, float64(h.quantile(q))/1e6)
			}
			fmt.Fprintf(b, " %.2f |", median(all))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "| ratio (goal) | %.2f | %s | %.2f |\n\n", r.ratio(0.5), against(r.ratio(0.99), 1.25, false), r.ratio(0.999))
}
