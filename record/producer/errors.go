package producer

import "errors"

// Why a batch or a marker is refused. In brackets: Kafka's error code.
var (
	// ErrOutOfOrderSequence: a gap, or the first batch of an epoch, or of an empty
	// log, that does not begin at 0 [OUT_OF_ORDER_SEQUENCE_NUMBER].
	ErrOutOfOrderSequence = errors.New("producer: sequence out of order")
	// ErrDuplicateOlder: a sequence at or below the last one that is none of the
	// batches still remembered [OUT_OF_ORDER_SEQUENCE_NUMBER since Kafka 2.x, or
	// DUPLICATE_SEQUENCE_NUMBER].
	ErrDuplicateOlder = errors.New("producer: duplicate older than the window")
	// ErrInvalidProducerEpoch: a newer instance of the producer has written
	// [INVALID_PRODUCER_EPOCH].
	ErrInvalidProducerEpoch = errors.New("producer: stale epoch")
	// ErrInvalidTxnState: a batch outside of the producer's open transaction
	// [INVALID_TXN_STATE].
	ErrInvalidTxnState = errors.New("producer: not part of the open transaction")
	// ErrCoordinatorFenced: a marker of an old coordinator
	// [TRANSACTION_COORDINATOR_FENCED].
	ErrCoordinatorFenced = errors.New("producer: stale coordinator epoch")
	// ErrSnapshot: bytes that are no encoded State or AbortedList of a version
	// that is known here.
	ErrSnapshot = errors.New("producer: malformed snapshot")
)
