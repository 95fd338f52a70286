package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// life is what is measured of a broker's process rather than of a workload.
type life struct {
	Start    time.Duration // from exec to the first answer, empty data folder
	IdleRSS  int64         // bytes, some seconds later
	IdleCPU  float64       // share of a core
	Recovery time.Duration // from exec after SIGKILL to the last partition's answer
	Held     int64         // bytes of values that it held then
}

// idleTime is how long an idle broker is looked at.
const idleTime = 5 * time.Second

// starts brings a broker up on an empty folder and looks at it while it idles.
func (b *bench) starts(ctx context.Context, p *peer) error {
	took, err := p.start(ctx)
	if err != nil {
		return err
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	before, err := p.procs.cpu()
	if err != nil {
		return err
	}
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := p.procs.cpu()
	if err != nil {
		return err
	}
	l := b.report.life(p.name)
	l.Start, l.IdleRSS, l.IdleCPU = took, p.procs.status("VmRSS"), (after-before).Seconds()/idleTime.Seconds()
	b.say("%s: up after %v, idle with %d MB and %.1f %% of a core", p.name, took.Round(time.Millisecond), l.IdleRSS/1e6, l.IdleCPU*100)
	return nil
}

// recovers fills a topic, kills the broker at once and waits for all of the topic after a new start.
func (b *bench) recovers(ctx context.Context, p *peer) error {
	if err := b.ready(ctx, p); err != nil {
		return err
	}
	r := produceRow("franz-go", 1024, "none")
	j := job{row: r, peer: p, s: b.s, topic: "recovery", values: payload(r.Size)}
	if err := p.create(ctx, j.topic, r.Partitions, nil); err != nil {
		return err
	}
	if err := j.fill(ctx, b.s.Recover); err != nil {
		return err
	}
	p.stop(syscall.SIGKILL)
	began := time.Now()
	if _, err := p.start(ctx); err != nil {
		return err
	}
	if err := p.serves(ctx, j.topic, r.Partitions); err != nil {
		return err
	}
	took := time.Since(began)
	ends, err := p.admin.ListEndOffsets(ctx, j.topic)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, e := range ends[j.topic] {
		total += e.Offset
	}
	if want := b.s.Recover / int64(r.Size); total != want {
		return fmt.Errorf("%s has %d of %d records after SIGKILL", p.name, total, want)
	}
	l := b.report.life(p.name)
	l.Recovery, l.Held = took, b.s.Recover
	b.say("%s: %d MB back after SIGKILL in %v", p.name, b.s.Recover/1e6, took.Round(time.Millisecond))
	return p.remove(ctx, j.topic)
}
