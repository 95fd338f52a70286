package object

import (
	"fmt"
	"math"

	"tidemark/record"
	"tidemark/record/producer"
)

// MaxSpan is the most offsets that one object covers: deltas in it fit 31 bits (C7).
const MaxSpan = math.MaxInt32

// Spec says what an object is to be. Numbers that follow from the batches are not in it.
type Spec struct {
	Cluster, Topic ID
	TopicName      string
	Partition      int32
	LeaderEpoch    record.Epoch
	Generation     int32
	Attempt        string
	// Base is the first batch's base offset, Next the exclusive end of the range.
	Base, Next record.Offset
	// AppendTime is the broker's clock at the append of the last batch, ms; the producers' idle time
	// is measured by it, so that every replica computes the same state.
	AppendTime, CleanSince int64
	// Compacted asks for a digest block.
	Compacted bool
	// Epochs and Producers are those at Base: the previous object's. Producers nil: none.
	Epochs    record.EpochHistory
	Producers *producer.State
	// ProducerIdle is producer.id.expiration.ms: producers idle for longer at AppendTime are left out
	// of the state (P7); 0: none is.
	ProducerIdle int64
	// Aborted lists every aborted transaction with a record in the range.
	Aborted producer.AbortedList
	// Rewrite makes the object one that replaces others: batches may be missing from its range, the
	// first may begin above Base, and the state at Next is given. Epochs, Producers and ProducerIdle
	// are then not used.
	Rewrite *End
	// MaxBytes ends the object before the batch that would make its data larger; 0: no limit. The
	// first batch always fits.
	MaxBytes int64
}

// End is the state at the end of a range, as the last replaced object has it: it cannot be computed
// from batches of which compaction has taken some (R2).
type End struct {
	Epochs    record.EpochHistory
	Producers *producer.State
}

func (s *Spec) validate() error {
	switch {
	case s.Base < 0 || s.Next <= s.Base:
		return fmt.Errorf("object: range [%d,%d)", s.Base, s.Next)
	case len(s.Attempt) == 0 || len(s.Attempt) > 64:
		return fmt.Errorf("object: attempt id %q", s.Attempt)
	case s.Rewrite != nil && (s.Rewrite.Producers == nil || s.Rewrite.Producers.End() != s.Next):
		return fmt.Errorf("object: a rewrite of [%d,%d) without the state at its end", s.Base, s.Next)
	case len(s.TopicName) > 249:
		return fmt.Errorf("object: topic name of %d bytes", len(s.TopicName))
	}
	return nil
}
