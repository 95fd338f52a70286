package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// bench is one run of the whole program.
type bench struct {
	s      settings
	rows   []row
	peers  []*peer
	jars   string
	began  time.Time
	values map[int][][]byte
	report *report

	ballast *ballast
}

// prepare builds, fetches and writes all that is needed.
func prepare(s settings) (*bench, error) {
	b := &bench{s: s, began: time.Now(), values: map[int][][]byte{}, report: newReport(s)}
	all, tidemark := selection(), newTidemark
	switch {
	case s.Cluster:
		all, tidemark = clusterRows(), newTidemarkCluster
	case s.Full:
		all = matrix()
	}
	for _, r := range all {
		if s.Rows.MatchString(r.Name) {
			b.rows = append(b.rows, r)
		}
	}
	b.report.only = b.compacts() && len(b.rows) == 0 && !s.Rows.MatchString(partRecovery) && !s.Rows.MatchString(partCold)
	var err error
	if b.ballast, err = newBallast(s.Dir); err != nil || b.report.only {
		return b, err
	}
	if _, err := buildDriver(s.Dir); err != nil {
		return nil, err
	}
	if b.jars, err = jars(s); err != nil {
		return nil, err
	}
	for _, describe := range []func(settings, string) (*peer, error){newKafka, tidemark} {
		p, err := describe(s, filepath.Join(s.Dir, fmt.Sprint("data", len(b.peers))))
		if err != nil {
			return nil, err
		}
		if s.Peers.MatchString(p.name) {
			b.peers = append(b.peers, p)
		}
	}
	for _, r := range b.rows {
		if b.values[r.Size] == nil {
			b.values[r.Size] = payload(r.Size)
			if err := writePayload(b.payloadFile(r.Size), b.values[r.Size]); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// compacts reports whether this run measures the cleaners.
func (b *bench) compacts() bool { return !b.s.Cluster && b.s.Rows.MatchString(partCompact) }

func (b *bench) payloadFile(size int) string {
	return filepath.Join(b.s.Dir, fmt.Sprint("payload-", size))
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%6.0fs  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

func (b *bench) close() {
	for _, p := range b.peers {
		if p.procs != nil {
			p.stop(syscall.SIGKILL)
		}
	}
}

// The parts of a run that are not rows of the table, by the names that BENCH_ROWS picks them by.
const (
	partRecovery = "recovery"
	partCold     = "cold replay"
	partCompact  = "compaction"
)

// all measures everything there is to measure.
func (b *bench) all(ctx context.Context) error {
	for _, p := range b.peers {
		if err := b.starts(ctx, p); err != nil {
			return err
		}
	}
	if b.s.Cluster {
		return b.rounds(ctx)
	}
	if b.s.Rows.MatchString(partRecovery) {
		for _, p := range b.peers {
			if err := b.recovers(ctx, p); err != nil {
				return err
			}
		}
	}
	if b.s.Rows.MatchString(partCold) && b.s.Peers.MatchString("tidemark") {
		if err := b.cold(ctx); err != nil {
			b.say("cold replay: %v", err)
			b.report.ColdFault = err.Error()
		}
	}
	if b.compacts() {
		if err := b.compaction(ctx); b.report.only && err != nil {
			return err
		} else if err != nil {
			b.say("compaction: %v", err)
			b.report.Faults = append(b.report.Faults, fmt.Sprintf("%s: %v", partCompact, err))
		}
	}
	return b.rounds(ctx)
}

// rounds measures each row once before any again.
func (b *bench) rounds(ctx context.Context) error {
	for round := range b.s.Runs {
		order := slices.Clone(b.peers)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, r := range b.rows {
			if r.Side && round >= b.s.SideRuns {
				continue
			}
			for _, p := range order {
				if time.Since(b.began) > b.s.Budget {
					b.say("the time is over in round %d of %d", round+1, b.s.Runs)
					b.report.Cut = round + 1
					return nil
				}
				if err := b.measure(ctx, r, p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure does one run of one row; a failure is reported in the table and ends nothing but itself.
func (b *bench) measure(ctx context.Context, r row, p *peer) error {
	if err := b.ready(ctx, p); err != nil {
		return err
	}
	m, err := b.one(ctx, r, p)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		b.say("%s, %s: %v", r.Name, p.name, err)
		b.report.failed(r, p.name, err)
		return nil
	}
	b.report.add(r, p.name, m)
	text := fmt.Sprintf("%s, %s: %.0f MB/s, %.2f CPU s/GB", r.Name, p.name, m.mbps(), m.cpuPerGB())
	if m.Latency != nil {
		text += fmt.Sprintf(", p50 %v, p99 %v", m.Latency.quantile(0.5), m.Latency.quantile(0.99))
	}
	b.say("%s", text)
	return nil
}

// ready starts a broker again that a run has brought down.
func (b *bench) ready(ctx context.Context, p *peer) error {
	if p.procs.ended() == nil {
		return nil
	}
	b.say("%s has ended, and is started again", p.name)
	p.stop(syscall.SIGKILL)
	_, err := p.start(ctx)
	return err
}

func (b *bench) one(ctx context.Context, r row, p *peer) (m measure, err error) {
	j := job{row: r, peer: p, s: b.s, jars: b.jars, values: b.values[r.Size], file: b.payloadFile(r.Size)}
	if r.Share > 0 {
		if j.rate = r.Share * b.report.slowestPeak(r.Of); j.rate == 0 {
			return m, errors.New("no peak was measured")
		}
	}
	j.topic = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	if r.Kind == kindConsume {
		j.topic = fmt.Sprintf("hot-%d", r.Size)
		if err := b.heat(ctx, j); err != nil {
			return m, err
		}
	} else {
		var more map[string]string
		if p.name == "tidemark" {
			more = r.Topic
		}
		if err := p.create(ctx, j.topic, r.Partitions, more); err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, p.remove(ctx, j.topic)) }()
	}
	if err := errors.Join(p.settle(ctx), b.ballast.fill()); err != nil {
		return m, err
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration((b.s.Ramp+b.s.Seconds)*float64(time.Second))+time.Minute)
	defer cancel()
	stop := p.profile(b.s, r)
	defer stop()
	return j.run(limited)
}

// heat fills the topic that all consumers of one size read, once.
func (b *bench) heat(ctx context.Context, j job) error {
	topics, err := j.peer.admin.ListTopics(ctx, j.topic)
	if err != nil {
		return err
	}
	if t, ok := topics[j.topic]; ok && t.Err == nil {
		return nil
	}
	b.say("filling %s of %s", j.topic, j.peer.name)
	if err := j.peer.create(ctx, j.topic, j.row.Partitions, nil); err != nil {
		return err
	}
	return j.fill(ctx, b.s.Hot)
}
