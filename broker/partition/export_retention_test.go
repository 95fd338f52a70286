package partition

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/hotlog"
	"tidemark/record"
)

// Roll ends the active segment.
func (p *Partition) Roll() {
	if err := p.log.Roll(hotlog.RollTime); err != nil {
		panic(err)
	}
	p.sealed()
}

// Expire is one look of retention, now.
func (p *Partition) Expire(ctx context.Context) error {
	return p.expire(ctx, p.env.wall().UnixMilli())
}

// Flushed is the end of what is known to be synced.
func (p *Partition) Flushed() record.Offset { return p.log.Bounds().Flushed }

// NewCollector is what a registry of the set would ask.
func NewCollector(s *Set) prometheus.Collector { return newCollector(s) }

// ISRChanges are the counters of shrinks and expands.
func (s *Set) ISRChanges() (shrinks, expands prometheus.Collector) {
	return s.env.metrics.shrinks, s.env.metrics.expands
}
