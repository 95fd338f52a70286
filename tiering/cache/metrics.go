package cache

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what the caches of one process do.
type Metrics struct {
	hits, misses, joined         prometheus.Counter
	downloads, failed, dropped   prometheus.Counter
	bytes, evicted, damaged      prometheus.Counter
	used, running, queued        prometheus.Gauge
	memory                       prometheus.Gauge
	passed                       prometheus.Counter
	tailHits, tailMisses, tailIn prometheus.Counter
}

// NewMetrics makes the counters and registers them at reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_cache_requests_total",
		Help: "Requests for a chunk: hit, miss (a download was queued) or joined (one was under way)."}, []string{"result"})
	downloads := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_cache_downloads_total",
		Help: "Ended downloads: ok, failed, or dropped (nobody wanted it any more when its turn came)."}, []string{"result"})
	tails := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_cache_tail_requests_total",
		Help: "Requests for a parsed tail in memory: hit, miss or joined."}, []string{"result"})
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &Metrics{
		hits: requests.WithLabelValues("hit"), misses: requests.WithLabelValues("miss"), joined: requests.WithLabelValues("joined"),
		downloads: downloads.WithLabelValues("ok"), failed: downloads.WithLabelValues("failed"), dropped: downloads.WithLabelValues("dropped"),
		bytes:    counter("tidemark_cache_download_bytes_total", "Bytes downloaded into the cache."),
		passed:   counter("tidemark_cache_passed_total", "Chunks dropped from memory without a file because a reader had gone through them."),
		memory:   gauge("tidemark_cache_memory_bytes", "Bytes of chunks in memory that have no file yet."),
		evicted:  counter("tidemark_cache_evictions_total", "Chunks removed to make room."),
		damaged:  counter("tidemark_cache_damaged_total", "Chunks dropped because their file was missing or did not fit its checksums."),
		used:     gauge("tidemark_cache_used_bytes", "Bytes on disk and reserved by running downloads."),
		running:  gauge("tidemark_cache_downloads_running", "Downloads that run now."),
		queued:   gauge("tidemark_cache_downloads_queued", "Downloads that wait for a turn or for space."),
		tailHits: tails.WithLabelValues("hit"), tailMisses: tails.WithLabelValues("miss"), tailIn: tails.WithLabelValues("joined"),
	}
	if reg != nil {
		reg.MustRegister(requests, downloads, tails, m.bytes, m.passed, m.memory, m.evicted, m.damaged, m.used, m.running, m.queued)
	}
	return m
}
