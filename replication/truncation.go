package replication

import (
	"errors"
	"fmt"

	"tidemark/record"
)

// ErrNoHistory: the leader does not know any epoch up to the one that it was asked about, which a leader that
// has begun its epoch always does. Ask again later.
var ErrNoHistory = errors.New("the leader has no epoch history yet")

// Truncation finds where a follower's log parts from its leader's: the end of the largest (epoch, offset) that
// both have (KIP-101, KIP-279; E1). It is a conversation: Ask names an epoch, the leader's answer to
// OffsetForLeaderEpoch goes to Answer, until Ask has no question left; then To is where the log is cut.
// The history covers the tier's part of the log too (R11; model, finding 8).
type Truncation struct {
	history record.EpochHistory
	end     record.Offset // of the follower's log
	to      record.Offset
	ask     record.Epoch
	done    bool
}

// NewTruncation begins with a follower's epoch history and the end of its log.
func NewTruncation(history record.EpochHistory, end record.Offset) Truncation {
	t := Truncation{history: history, end: end, to: end}
	last, ok := history.Latest()
	t.ask, t.done = last.Epoch, !ok
	return t
}

// Ask is the epoch to ask the leader about; false when the place is found.
func (t *Truncation) Ask() (record.Epoch, bool) { return t.ask, !t.done }

// To is where the follower's log has to end, as far as is known.
func (t *Truncation) To() record.Offset { return t.to }

// Answer takes the leader's answer: the largest epoch that it knows up to the asked one, and where it ends.
func (t *Truncation) Answer(epoch record.Epoch, end record.Offset) error {
	if epoch < 0 || end < 0 || epoch > t.ask {
		return fmt.Errorf("%w: asked about epoch %d, answered %d at %d", ErrNoHistory, t.ask, epoch, end)
	}
	t.to = min(t.to, end)
	if epoch == t.ask {
		t.done = true
		return nil
	}
	// The leader does not have the asked epoch: of ours, what came after its epoch is not in its log.
	own, ownEnd := t.history.EndOffset(epoch, t.end)
	t.to = min(t.to, ownEnd)
	if own == epoch { // both have it, or ours begins after it
		t.done = true
		return nil
	}
	t.ask = own
	return nil
}
