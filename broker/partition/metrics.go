package partition

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the partitions of this broker do.
type metrics struct {
	bytes       prometheus.Counter
	records     prometheus.Counter
	freed       prometheus.Counter
	logFailures prometheus.Counter
	damaged     prometheus.Counter
	resets      prometheus.Counter
	shrinks     prometheus.Counter
	expands     prometheus.Counter
	open        prometheus.Gauge
	led         prometheus.Gauge
	offline     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		bytes:       counter("tidemark_partition_appended_bytes_total", "Bytes of batches that clients have appended."),
		records:     counter("tidemark_partition_appended_records_total", "Records that clients have appended."),
		freed:       counter("tidemark_partition_freed_bytes_total", "Bytes of local segments freed because the object tier has them or retention removed them."),
		logFailures: counter("tidemark_partition_log_failures_total", "Appends that met a log which a failed write or fsync has closed."),
		damaged:     counter("tidemark_partition_damaged_segments_total", "Times that an upload found local bytes that fail their checks."),
		resets:      counter("tidemark_partition_resets_total", "Local logs that gave way to the object tier at the begin of a leadership."),
		shrinks:     counter("tidemark_partition_isr_shrinks_total", "Changes of in-sync sets of partitions that this broker leads in which a replica left."),
		expands:     counter("tidemark_partition_isr_expands_total", "Changes of in-sync sets of partitions that this broker leads in which a replica came."),
		open:        gauge("tidemark_partition_open", "Partitions whose log is open on this broker."),
		led:         gauge("tidemark_partition_led", "Partitions that this broker leads."),
		offline:     gauge("tidemark_partition_offline", "Partitions of this broker that cannot be opened or led at present."),
	}
	if reg != nil {
		reg.MustRegister(m.bytes, m.records, m.freed, m.logFailures, m.damaged, m.resets, m.shrinks, m.expands, m.open, m.led, m.offline)
	}
	return m
}

func (m *metrics) appended(bytes, records int) {
	m.bytes.Add(float64(bytes))
	m.records.Add(float64(records))
}
