package producer

import (
	"fmt"
	"math"

	"tidemark/record"
)

// Verdict says of a batch that is in order whether it is new.
type Verdict struct {
	// Duplicate: the batch is in the log already, at [BaseOffset, LastOffset].
	// It is answered as the original is, when the high watermark has passed it
	// (R17).
	Duplicate  bool
	BaseOffset record.Offset
	LastOffset record.Offset
	// Timestamp is the original's max timestamp in milliseconds, the broker's own
	// where the original was stamped with the append time.
	Timestamp int64
}

// Check judges a client's batch before it is given offsets. Batches without
// producer are always new. A producer that is not known may begin anywhere (its
// state may have expired), except in a log that never held a record, where a
// batch that overtook the first would lock it out for ever (F5).
//
// Errors: ErrInvalidProducerEpoch, ErrOutOfOrderSequence, ErrDuplicateOlder,
// ErrInvalidTxnState.
func (s *State) Check(h record.Header) (Verdict, error) {
	if !h.HasProducer() {
		return Verdict{}, nil
	}
	e := s.find(h.ProducerID)
	if e == nil {
		if s.end == 0 && h.BaseSequence != 0 {
			return Verdict{}, fmt.Errorf("%w: producer %d begins an empty log with sequence %d",
				ErrOutOfOrderSequence, h.ProducerID, h.BaseSequence)
		}
		return Verdict{}, nil
	}
	if h.ProducerEpoch < e.epoch {
		return Verdict{}, fmt.Errorf("%w: producer %d, epoch %d, current %d",
			ErrInvalidProducerEpoch, h.ProducerID, h.ProducerEpoch, e.epoch)
	}
	if h.ProducerEpoch == e.epoch {
		if v, ok := e.duplicate(h); ok {
			return v, nil
		}
	}
	if err := e.checkSequence(h); err != nil {
		return Verdict{}, err
	}
	if e.txnFirst != noTxn && !h.IsTransactional() {
		return Verdict{}, fmt.Errorf("%w: producer %d, transaction open since offset %d",
			ErrInvalidTxnState, h.ProducerID, e.txnFirst)
	}
	return Verdict{}, nil
}

func (e *entry) duplicate(h record.Header) (Verdict, bool) {
	for _, b := range e.batches[:e.count] {
		if b.lastSeq == h.LastSequence() && b.firstSeq() == h.BaseSequence {
			return Verdict{Duplicate: true, BaseOffset: b.base(), LastOffset: b.lastOffset, Timestamp: b.timestamp}, true
		}
	}
	return Verdict{}, false
}

func (e *entry) checkSequence(h record.Header) error {
	// Without a batch of this epoch (a new one, or one that so far only a marker
	// has named: KIP-890) the sequence begins at 0.
	want := int32(0)
	if h.ProducerEpoch == e.epoch && e.count > 0 {
		want = record.AddSequence(e.last().lastSeq, 1)
	}
	if h.BaseSequence == want {
		return nil
	}
	// Numbers go round, so "older" is the nearer half of the circle.
	behind := (int64(want) - int64(h.BaseSequence)) & math.MaxInt32
	if h.ProducerEpoch == e.epoch && e.count > 0 && behind < 1<<30 {
		return fmt.Errorf("%w: producer %d, epoch %d, sequence %d, next %d",
			ErrDuplicateOlder, h.ProducerID, h.ProducerEpoch, h.BaseSequence, want)
	}
	return fmt.Errorf("%w: producer %d, epoch %d, sequence %d, next %d",
		ErrOutOfOrderSequence, h.ProducerID, h.ProducerEpoch, h.BaseSequence, want)
}

// CheckMarker judges a transaction marker before it is appended. Errors:
// ErrInvalidProducerEpoch, ErrCoordinatorFenced.
func (s *State) CheckMarker(producerID int64, producerEpoch int16, coordinatorEpoch int32) error {
	e := s.find(producerID)
	switch {
	case e == nil:
		return nil
	case producerEpoch < e.epoch:
		return fmt.Errorf("%w: marker of producer %d, epoch %d, current %d",
			ErrInvalidProducerEpoch, producerID, producerEpoch, e.epoch)
	case coordinatorEpoch < e.coordinator:
		return fmt.Errorf("%w: marker of producer %d, coordinator epoch %d, current %d",
			ErrCoordinatorFenced, producerID, coordinatorEpoch, e.coordinator)
	}
	return nil
}

// OpenTransaction is where the producer's open transaction begins, and its epoch.
func (s *State) OpenTransaction(producerID int64) (first record.Offset, epoch int16, ok bool) {
	e := s.find(producerID)
	if e == nil || e.txnFirst == noTxn {
		return record.NoOffset, noEpoch, false
	}
	return e.txnFirst, e.epoch, true
}
