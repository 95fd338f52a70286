package audit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ScrubOptions of a Scrubber. Auditor and Partitions are required.
type ScrubOptions struct {
	Auditor *Auditor
	// Partitions are those that this broker is to scrub: those that it leads.
	Partitions func() []Partition
	// Bucket reports whether this broker compares the bucket with the catalog too; nil: never.
	Bucket func() bool
	// Ready is asked before each round; false postpones it [always].
	Ready func() bool
	// BytesPerSecond is how fast objects are read [8 MiB].
	BytesPerSecond int64
	// Every is the time from the beginning of a round to that of the next, if it does not take longer
	// [7 days]; First the wait before the first round [a minute].
	Every, First time.Duration
	Metrics      prometheus.Registerer // nil: none registered
}

// Scrubber verifies slowly, all the time.
type Scrubber struct {
	o       ScrubOptions
	objects prometheus.Counter
	bytes   prometheus.Counter
	found   *prometheus.CounterVec
	open    prometheus.Gauge
	last    prometheus.Gauge

	mu    sync.Mutex // guards known
	known []Problem  // of the last whole round and what the present one has found
}

// mostKnown bounds the problems that are remembered.
const mostKnown = 1000

// NewScrubber makes a Scrubber.
func NewScrubber(o ScrubOptions) (*Scrubber, error) {
	if o.BytesPerSecond <= 0 {
		o.BytesPerSecond = 8 << 20
	}
	if o.Every <= 0 {
		o.Every = 7 * 24 * time.Hour
	}
	if o.First <= 0 {
		o.First = time.Minute
	}
	s := &Scrubber{
		o:       o,
		objects: prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_scrub_objects_total", Help: "Objects that the background scrub has read."}),
		bytes:   prometheus.NewCounter(prometheus.CounterOpts{Name: "tidemark_scrub_bytes_total", Help: "Bytes that the background scrub has read."}),
		found:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_scrub_findings_total", Help: "Problems that the background scrub has found, by kind; one that stays is counted in each round."}, []string{"kind"}),
		open:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_scrub_problems", Help: "Problems that the last round of the background scrub has found."}),
		last:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_scrub_round_time_seconds", Help: "When the last round of the background scrub ended, in seconds since 1970; 0: none has."}),
	}
	for _, k := range Kinds {
		s.found.WithLabelValues(string(k))
	}
	if o.Metrics != nil {
		for _, c := range []prometheus.Collector{s.objects, s.bytes, s.found, s.open, s.last} {
			if err := o.Metrics.Register(c); err != nil {
				return nil, fmt.Errorf("audit: register metrics: %w", err)
			}
		}
	}
	return s, nil
}

// Known are the problems of the last whole round, or those that the present one has found if they are more.
func (s *Scrubber) Known() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Problem(nil), s.known...)
}

// Run scrubs until ctx ends.
func (s *Scrubber) Run(ctx context.Context) error {
	wait := s.o.First
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if s.o.Ready != nil && !s.o.Ready() {
			wait = s.o.First
			continue
		}
		began := time.Now()
		err := s.Round(ctx)
		wait = max(s.o.Every-time.Since(began), s.o.First)
		if err != nil && ctx.Err() == nil {
			s.o.Auditor.o.Logger.Warn("the scrub could not finish its round and will begin another", "err", err)
			wait = max(s.o.First, time.Minute)
		}
	}
}

// Round goes through everything once, from a random partition on, so that restarts do not keep it at the
// first ones.
func (s *Scrubber) Round(ctx context.Context) error {
	parts := s.o.Partitions()
	if n := len(parts); n > 0 {
		at := rand.IntN(n)
		parts = append(append([]Partition(nil), parts[at:]...), parts[:at]...)
	}
	var problems []Problem
	var before Progress
	req := Request{Partitions: parts, Deep: true, Bucket: s.o.Bucket != nil && s.o.Bucket()}
	_, err := s.o.Auditor.verify(ctx, req, func(p Problem, now Progress) {
		s.objects.Add(float64(now.Objects - before.Objects))
		s.bytes.Add(float64(now.Bytes - before.Bytes))
		before = now
		if p.Kind == "" {
			return
		}
		s.found.WithLabelValues(string(p.Kind)).Inc()
		if len(problems) < mostKnown {
			problems = append(problems, p)
			s.learn(problems, false)
		}
		if p.Kind != Unreadable {
			s.o.Auditor.o.Logger.Error("the scrub found a problem in the object tier", "problem", p.String())
		}
	}, pace(s.o.BytesPerSecond))
	if err != nil {
		return err
	}
	s.learn(problems, true)
	s.last.SetToCurrentTime()
	return nil
}

// learn replaces what is known if the round is whole, or has found more.
func (s *Scrubber) learn(problems []Problem, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if whole || len(problems) > len(s.known) {
		s.known = append([]Problem(nil), problems...)
	}
	s.open.Set(float64(len(s.known)))
}

// errPace ends a wait.
var errPace = errors.New("audit: the scrub was stopped")

// pace lets through as many bytes a second.
func pace(bytesPerSecond int64) pacing {
	var mu sync.Mutex // guards next
	var next time.Time
	return func(ctx context.Context, n int64) error {
		mu.Lock()
		now := time.Now()
		if next.Before(now) {
			next = now
		}
		at := next
		next = next.Add(time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second)))
		mu.Unlock()
		if wait := at.Sub(now); wait > 0 {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", errPace, ctx.Err())
			}
		}
		return nil
	}
}
