package handler

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/partition"
	"tidemark/broker/topicconfig"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/replication"
)

// codes is the one table of internal errors and the Kafka error that a client sees; the first match
// wins, so the more specific stand first.
var codes = []struct {
	err  error
	kind *kerr.Error
}{
	{partition.ErrNotLeader, kerr.NotLeaderForPartition},
	{partition.ErrUnknown, kerr.UnknownTopicOrPartition},
	{partition.ErrOutOfRange, kerr.OffsetOutOfRange},
	{partition.ErrFencedEpoch, kerr.FencedLeaderEpoch},
	{partition.ErrUnknownEpoch, kerr.UnknownLeaderEpoch},
	{partition.ErrNotEnoughReplicas, kerr.NotEnoughReplicas},
	{partition.ErrNotEnoughAfterAppend, kerr.NotEnoughReplicasAfterAppend},
	{partition.ErrOffsetNotAvailable, kerr.OffsetNotAvailable},
	{partition.ErrMovedToTier, kerr.OffsetMovedToTieredStorage},
	{partition.ErrTimestamp, kerr.InvalidTimestamp},
	{partition.ErrTransaction, kerr.InvalidTxnState},
	{partition.ErrDeleteNotAllowed, kerr.PolicyViolation},
	{partition.ErrHole, kerr.KafkaStorageError},
	{partition.ErrStorage, kerr.KafkaStorageError},

	{record.ErrTooLarge, kerr.MessageTooLarge},
	{record.ErrBusy, kerr.RequestTimedOut}, // which producers retry
	{record.ErrMagic, kerr.UnsupportedForMessageFormat},
	{record.ErrCodec, kerr.UnsupportedCompressionType},
	{record.ErrInvalidTimestamp, kerr.InvalidTimestamp},
	{record.ErrInvalidRecord, kerr.InvalidRecord},
	{record.ErrCorrupt, kerr.CorruptMessage},
	{record.ErrTruncated, kerr.CorruptMessage},

	{producer.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{producer.ErrDuplicateOlder, kerr.OutOfOrderSequenceNumber}, // as Kafka answers since 1.0 (F4)
	{producer.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{producer.ErrInvalidTxnState, kerr.InvalidTxnState},

	{hotlog.ErrDiskFull, kerr.KafkaStorageError},
	{hotlog.ErrFailed, kerr.KafkaStorageError},
	{hotlog.ErrNoFiles, kerr.KafkaStorageError},
	{hotlog.ErrClosed, kerr.NotLeaderForPartition},

	{topicconfig.ErrInvalid, kerr.InvalidConfig},

	{ErrNotController, kerr.NotController},
	{ErrElectionNotNeeded, kerr.ElectionNotNeeded},
	{ErrNotElected, kerr.EligibleLeadersNotAvailable},
	{ErrPreferredNotElected, kerr.PreferredLeaderNotAvailable},

	{catalog.ErrNoMove, kerr.NoReassignmentInProgress},
	{catalog.ErrTopicExists, kerr.TopicAlreadyExists},
	{catalog.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{catalog.ErrFenced, kerr.NotLeaderForPartition},
	{catalog.ErrRewound, kerr.RequestTimedOut}, // until the brokers' copies have been taken in
	{catalog.ErrInvalid, kerr.InvalidRequest},

	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// codeFor is the Kafka code of an error; 0 for nil. An error that the table does not know is a bug:
// UNKNOWN_SERVER_ERROR, which is counted.
func codeFor(err error) int16 {
	if err == nil {
		return 0
	}
	var kind *kerr.Error
	if errors.As(err, &kind) {
		return kind.Code
	}
	for _, row := range codes {
		if errors.Is(err, row.err) {
			return row.kind.Code
		}
	}
	var few replication.TooFewBrokersError
	switch {
	case errors.As(err, &few):
		return kerr.InvalidReplicationFactor.Code
	case catalog.Unavailable(err):
		return kerr.RequestTimedOut.Code // retriable, and the truth: its outcome is not known
	}
	unknownErrors.Inc()
	return kerr.UnknownServerError.Code
}

// unknownErrors counts answers that say UNKNOWN_SERVER_ERROR; each is a bug.
var unknownErrors = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "tidemark_kafka_unknown_server_errors_total",
	Help: "Answers with UNKNOWN_SERVER_ERROR. Each is a bug.",
})

// metrics counts what handlers do beyond what wire counts per API.
type metrics struct {
	fetchedHot, fetchedCold prometheus.Counter
	produceErrors           prometheus.Counter
	panics                  prometheus.Counter
	fetchParts              prometheus.Gauge
	fetchesWaiting          prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		fetchedHot: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_fetch_hot_bytes_total", Help: "Bytes of batches given to fetches from local disk."}),
		fetchedCold: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_fetch_cold_bytes_total", Help: "Bytes of batches given to fetches from the object tier."}),
		produceErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_produce_errors_total", Help: "Partitions of produce requests that were answered with an error."}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_kafka_wait_panics_total", Help: "Panics in the waiting part of a request. Each is a bug."}),
		fetchParts: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_fetch_partitions", Help: "Partitions of clients' fetch sessions and of fetches that wait without one, of TIDEMARK_FETCH_PARTITIONS."}),
		fetchesWaiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_fetches_waiting", Help: "Fetches that wait for records."}),
	}
	if reg != nil {
		reg.MustRegister(m.fetchedHot, m.fetchedCold, m.produceErrors, m.panics, m.fetchParts, m.fetchesWaiting, unknownErrors)
	}
	return m
}
