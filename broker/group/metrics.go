package group

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what a Coordinator does.
type Metrics struct {
	groups       prometheus.Gauge
	memory       prometheus.Gauge
	noMemory     prometheus.Counter
	rebalances   prometheus.Counter
	committed    prometheus.Counter
	unchanged    prometheus.Counter
	refused      prometheus.Counter
	failedBatch  prometheus.Counter
	batchSeconds prometheus.Histogram
	batchEntries prometheus.Histogram
	failedLoad   prometheus.Counter
	expired      prometheus.Counter
}

// NewMetrics registers the counters with reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		groups: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_groups", Help: "Consumer groups in memory."}),
		memory: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_group_memory_bytes", Help: "Memory of all consumer groups and their members, about."}),
		noMemory:    counter("tidemark_group_memory_refusals_total", "Calls that were refused because groups hold as much memory as they may."),
		rebalances:  counter("tidemark_group_rebalances_total", "Generations that groups have begun."),
		committed:   counter("tidemark_group_offsets_committed_total", "Offset commits that are durable, by partition."),
		unchanged:   counter("tidemark_group_offsets_unchanged_total", "Offset commits that changed nothing and were not written."),
		refused:     counter("tidemark_group_offsets_refused_total", "Offset commits refused because too many wait."),
		failedBatch: counter("tidemark_group_commit_failures_total", "Batches of offset commits that the catalog failed."),
		failedLoad:  counter("tidemark_group_load_failures_total", "Reads of a group's offsets that the catalog failed."),
		expired:     counter("tidemark_group_offsets_expired_total", "Groups whose offsets have expired."),
		batchSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_group_commit_seconds", Help: "Duration of one batch of offset commits in the catalog.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8)}),
		batchEntries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_group_commit_entries", Help: "Partitions in one batch of offset commits.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8)}),
	}
	if reg != nil {
		reg.MustRegister(m.groups, m.memory, m.noMemory, m.rebalances, m.committed, m.unchanged, m.refused, m.failedBatch,
			m.failedLoad, m.expired, m.batchSeconds, m.batchEntries)
	}
	return m
}
