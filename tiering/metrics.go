package tiering

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/catalog"
)

// metrics of the tier; docs/metrics.md is made from the help texts.
type metrics struct {
	objects, bytes, failures, panics  prometheus.Counter
	damaged, mismatched, givenUp      prometheus.Counter
	republished, swapsGone            prometheus.Counter
	deleted, deleteFailed             prometheus.Counter
	reads, readErrors, lost, prefetch prometheus.Counter
	readBytes                         prometheus.Counter
	uploadSeconds                     prometheus.Histogram
	stalled                           *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		objects:      count("tidemark_tier_uploaded_objects_total", "Objects published by this broker."),
		bytes:        count("tidemark_tier_uploaded_bytes_total", "Size of the objects published by this broker."),
		failures:     count("tidemark_tier_upload_failures_total", "Upload attempts that failed and are retried."),
		panics:       count("tidemark_tier_upload_panics_total", "Panics caught in an upload: each is a bug."),
		damaged:      count("tidemark_tier_damaged_segments_total", "Runs of local batches that failed their checks before an upload; nothing of them was published."),
		mismatched:   count("tidemark_tier_readback_mismatches_total", "Objects that the store accepted and did not return as they were put."),
		givenUp:      count("tidemark_tier_attempts_given_up_total", "Upload attempts whose intent was turned into garbage."),
		republished:  count("tidemark_tier_republished_total", "Objects published again because the catalog had lost their rows."),
		swapsGone:    count("tidemark_tier_lost_swaps_given_up_total", "Merges and compactions that the catalog had lost and that were not swapped in again."),
		deleted:      count("tidemark_tier_deletes_total", "DELETEs of garbage objects acknowledged by the store."),
		deleteFailed: count("tidemark_tier_delete_failures_total", "DELETEs of garbage objects that failed and are retried."),
		reads:        count("tidemark_tier_reads_total", "Cold reads answered."),
		readErrors:   count("tidemark_tier_read_errors_total", "Cold reads that ended in a storage error."),
		readBytes:    count("tidemark_tier_read_bytes_total", "Bytes of batches answered by cold reads."),
		lost:         count("tidemark_tier_lost_objects_total", "Reads that found a live row's object missing or damaged."),
		prefetch:     count("tidemark_tier_prefetched_chunks_total", "Chunks asked for ahead of a sequential reader."),
		uploadSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_tier_upload_seconds", Help: "Time from reading a run to its object being read back.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
		}),
		stalled: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tidemark_tier_stalled", Help: "1 while the last upload attempt of a led partition has failed (A1).",
		}, []string{"partition"}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.objects, m.bytes, m.failures, m.panics, m.damaged, m.mismatched, m.givenUp, m.republished, m.swapsGone, m.deleted, m.deleteFailed,
		m.reads, m.readErrors, m.readBytes, m.lost, m.prefetch, m.uploadSeconds, m.stalled,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) failed(p catalog.PartitionID) {
	m.failures.Inc()
	m.stalled.WithLabelValues(p.String()).Set(1)
}

// moving drops the series of a partition that is not stalled, or not led any more.
func (m *metrics) moving(p catalog.PartitionID) { m.stalled.DeleteLabelValues(p.String()) }

func (m *metrics) published(p catalog.PartitionID, bytes int64) {
	m.objects.Inc()
	m.bytes.Add(float64(bytes))
	m.moving(p)
}
