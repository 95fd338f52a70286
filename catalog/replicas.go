package catalog

import (
	"context"

	"tidemark/record"
)

// ISRChange is a leader's compare-and-set of one in-sync set.
type ISRChange struct {
	ID PartitionID
	// IfVersion is the row's version that the decision was made on; another one refuses the entry.
	IfVersion Version
	// ISR is the set as it is to be; the leader is in it.
	ISR []Member
	// MinISR is min.insync.replicas as the leader goes by it, IfTopic the version of the topic that it was read
	// at: if the topic has changed since, nobody is eligible after the change (H6).
	MinISR  int
	IfTopic Version
}

// Replicas is what leaders change of their partitions' in-sync sets.
type Replicas interface {
	// AlterISR applies the changes of one broker in one transaction, rows locked in order, the counter
	// last. Entry i is guarded by (b, inc, epochs[i]) in its row. A member that was not in the set has to
	// be live with its registered incarnation and one of the replicas (H4, KIP-903); else its entry is
	// refused. The ELR follows by [NextELR], also where the set stays. It returns the rows as they stand now for every entry that
	// has one, in the order of the entries, changed or not: whoever finds what it asked for has it, also
	// after an unclear COMMIT. ErrInvalid for a set that is empty or lacks the leader.
	AlterISR(ctx context.Context, b BrokerID, inc Incarnation, epochs []record.Epoch, cs []ISRChange) ([]Partition, error)
	// Move begins to move partitions to other replicas, changes where they go to, or cancels it, in one
	// transaction. The replicas that a move adds have to be live. The controller ends a move when all of
	// its target is in sync (an Election with Replicas). errs has one entry per move: nil,
	// ErrUnknownTopic, ErrNoMove, ErrInvalid. err is for all of them.
	Move(ctx context.Context, ms []Move) (errs []error, err error)
}

// Move says where a partition's replicas are to be, the preferred leader first. A nil Target cancels
// the move that is going on.
type Move struct {
	ID     PartitionID
	Target []BrokerID
}
