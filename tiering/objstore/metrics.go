package objstore

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what goes to and comes from the object store.
type Metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	retries  *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	inFlight prometheus.Gauge
	rate     prometheus.Gauge
}

// NewMetrics makes the counters and registers them at reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_objstore_requests_total",
			Help: "Operations on the object store by result: ok, not_found, throttled, denied, failed, or unclear (a put that may be stored)."}, []string{"op", "result"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_objstore_bytes_total",
			Help: "Bytes of successful puts and gets."}, []string{"op"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tidemark_objstore_seconds",
			Help:    "Time of an operation, retries included and waiting for a turn not.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}, []string{"op"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tidemark_objstore_retries_total",
			Help: "Requests that failed and were sent again."}, []string{"op"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tidemark_objstore_waiting",
			Help: "Operations that wait for a turn."}, []string{"class"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_objstore_in_flight", Help: "Operations under way."}),
		rate: prometheus.NewGauge(prometheus.GaugeOpts{Name: "tidemark_objstore_rate_limit",
			Help: "Operations per second that are sent since the store asked to slow down; 0 is no limit."}),
	}
	for _, op := range []string{"put", "get", "stat", "delete", "list"} {
		for _, result := range []string{"ok", "not_found", "throttled", "denied", "failed", "unclear"} {
			m.requests.WithLabelValues(op, result)
		}
		m.seconds.WithLabelValues(op)
		m.retries.WithLabelValues(op)
	}
	m.bytes.WithLabelValues("put")
	m.bytes.WithLabelValues("get")
	for _, c := range Classes {
		m.waiting.WithLabelValues(c.String())
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.bytes, m.seconds, m.retries, m.waiting, m.inFlight, m.rate)
	}
	return m
}

// Retried counts one retry; it is remote.Options.OnRetry.
func (m *Metrics) Retried(op string, _ error) { m.retries.WithLabelValues(op).Inc() }

// Wrap counts what goes through store.
func (m *Metrics) Wrap(store Store) Store { return &metered{store: store, m: m} }

func (m *Metrics) observe(op string, start time.Time, err error) {
	m.seconds.WithLabelValues(op).Observe(time.Since(start).Seconds())
	result := "failed"
	switch {
	case err == nil:
		result = "ok"
	case errors.Is(err, ErrNotFound):
		result = "not_found"
	case errors.Is(err, ErrThrottled):
		result = "throttled"
	case errors.Is(err, ErrDenied):
		result = "denied"
	case op == "put" && Unclear(err):
		result = "unclear"
	}
	m.requests.WithLabelValues(op, result).Inc()
}

// metered is a Store that is counted.
type metered struct {
	store Store
	m     *Metrics
}

func (s *metered) Put(ctx context.Context, key string, src Source, opts PutOptions) error {
	start := time.Now()
	err := s.store.Put(ctx, key, src, opts)
	s.m.observe("put", start, err)
	if err == nil {
		s.m.bytes.WithLabelValues("put").Add(float64(src.Size))
	}
	return err
}

func (s *metered) ReadRange(ctx context.Context, key string, off int64, dst []byte) error {
	start := time.Now()
	err := s.store.ReadRange(ctx, key, off, dst)
	s.m.observe("get", start, err)
	if err == nil {
		s.m.bytes.WithLabelValues("get").Add(float64(len(dst)))
	}
	return err
}

func (s *metered) Stat(ctx context.Context, key string) (Info, error) {
	start := time.Now()
	info, err := s.store.Stat(ctx, key)
	s.m.observe("stat", start, err)
	return info, err
}

func (s *metered) Delete(ctx context.Context, key string, uploads ...string) error {
	start := time.Now()
	err := s.store.Delete(ctx, key, uploads...)
	s.m.observe("delete", start, err)
	return err
}

func (s *metered) List(ctx context.Context, prefix, after string, limit int) ([]Info, error) {
	start := time.Now()
	page, err := s.store.List(ctx, prefix, after, limit)
	s.m.observe("list", start, err)
	return page, err
}
