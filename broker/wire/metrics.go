package wire

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reasons for which a connection is refused or closed by us.
const (
	reasonTooMany    = "too_many_connections"
	reasonPerAddress = "too_many_of_address"
	reasonFrame      = "bad_frame"
	reasonIdle       = "idle"
	reasonSlowReader = "slow_reader"
	reasonSlowWriter = "slow_writer"
	reasonPanic      = "panic"
	reasonHandler    = "handler"
)

var reasons = []string{
	reasonTooMany, reasonPerAddress, reasonFrame, reasonIdle, reasonSlowReader, reasonSlowWriter, reasonPanic, reasonHandler,
}

// Metrics counts what a Server does. All label values exist from the start.
type Metrics struct {
	connections prometheus.Gauge
	accepted    prometheus.Counter
	closed      map[string]prometheus.Counter
	bytesIn     prometheus.Counter
	bytesOut    prometheus.Counter
	// requests and seconds are indexed by api key; the last entry stands for
	// keys that nobody knows.
	requests []prometheus.Counter
	seconds  []prometheus.Observer
}

// NewMetrics registers the counters with reg, which may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_kafka_connections", Help: "Open Kafka connections."}),
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_kafka_connections_accepted_total", Help: "Kafka connections accepted."}),
		bytesIn: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_kafka_received_bytes_total", Help: "Bytes of requests, their length prefix included."}),
		bytesOut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_kafka_sent_bytes_total", Help: "Bytes of responses, their length prefix included."}),
		closed: map[string]prometheus.Counter{},
	}
	closed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_kafka_connections_closed_total", Help: "Connections that the broker refused or closed, by reason."}, []string{"reason"})
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidemark_kafka_requests_total", Help: "Requests received, by API."}, []string{"api"})
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tidemark_kafka_request_seconds", Help: "From the whole frame received to the answer written, by API.",
		Buckets: prometheus.ExponentialBuckets(0.0002, 4, 10)}, []string{"api"})
	for _, r := range reasons {
		m.closed[r] = closed.WithLabelValues(r)
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		m.requests = append(m.requests, requests.WithLabelValues(kmsg.NameForKey(key)))
		m.seconds = append(m.seconds, seconds.WithLabelValues(kmsg.NameForKey(key)))
	}
	m.requests = append(m.requests, requests.WithLabelValues("Unknown"))
	m.seconds = append(m.seconds, seconds.WithLabelValues("Unknown"))
	if reg != nil {
		reg.MustRegister(m.connections, m.accepted, m.bytesIn, m.bytesOut, closed, requests, seconds)
	}
	return m
}

func (m *Metrics) slot(key int16) int {
	if key < 0 || int(key) >= len(m.requests)-1 {
		return len(m.requests) - 1
	}
	return int(key)
}
