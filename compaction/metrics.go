package compaction

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of a worker; docs/metrics.md is made from the help texts.
type metrics struct {
	passes, failures, panics              prometheus.Counter
	read, written, objects, replaced      prometheus.Counter
	records, tombstones, markers, keyless prometheus.Counter
	unread                                prometheus.Counter
	stalled                               *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		passes:     count("tidemark_compaction_passes_total", "Compaction passes and merges that ended well."),
		failures:   count("tidemark_compaction_failures_total", "Compaction passes and merges that failed and are retried."),
		panics:     count("tidemark_compaction_panics_total", "Panics caught in a compaction: each is a bug."),
		read:       count("tidemark_compaction_read_bytes_total", "Bytes of objects and digests that compaction has read."),
		written:    count("tidemark_compaction_written_bytes_total", "Bytes of objects that compaction has put."),
		objects:    count("tidemark_compaction_objects_total", "Objects that compaction and merge have put."),
		replaced:   count("tidemark_compaction_replaced_objects_total", "Objects that compaction and merge have replaced."),
		records:    count("tidemark_compaction_removed_records_total", "Records that compaction has removed."),
		tombstones: count("tidemark_compaction_removed_tombstones_total", "Tombstones among the removed records."),
		markers:    count("tidemark_compaction_removed_markers_total", "Transaction markers among the removed records."),
		keyless:    count("tidemark_compaction_removed_keyless_total", "Records without a key among the removed records."),
		unread:     count("tidemark_compaction_unread_records_total", "Records of batches that cannot be decoded and were copied as they are."),
		stalled: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tidemark_compaction_stalled", Help: "1 while the last pass of a partition has failed.",
		}, []string{"partition"}),
	}
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.passes, m.failures, m.panics, m.read, m.written, m.objects, m.replaced,
		m.records, m.tombstones, m.markers, m.keyless, m.unread, m.stalled,
	} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) count(d *Done, ended bool) {
	if ended {
		m.passes.Inc()
	}
	for c, n := range map[prometheus.Counter]int64{
		m.read: d.Read, m.written: d.Written, m.objects: d.Objects, m.replaced: d.Replaced, m.records: d.Records,
		m.tombstones: d.Tombstones, m.markers: d.Markers, m.keyless: d.Keyless, m.unread: d.Unread,
	} {
		c.Add(float64(n))
	}
}
