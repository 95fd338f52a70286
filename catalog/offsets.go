package catalog

import (
	"context"
	"time"

	"tidemark/record"
)

// SlotGuard fences a coordinator's writes: the slot's row must show this broker and epoch, and is
// locked in the same transaction (H20).
type SlotGuard struct {
	Slot        int32
	Broker      BrokerID
	Incarnation Incarnation
	Epoch       int64
}

// Slots is the number of coordinator slots, fixed when the cluster is made (DESIGN §6).
const Slots = 64

// CommittedOffset is one row of group_offsets.
type CommittedOffset struct {
	Group       string
	Partition   PartitionID
	Offset      record.Offset
	LeaderEpoch record.Epoch // record.NoEpoch if the client gave none
	Metadata    string
	CommitTime  time.Time
}

// OffsetWrite is one commit; a batch of them is answered entry by entry.
type OffsetWrite struct {
	Guard SlotGuard
	CommittedOffset
}

// Offsets holds what consumer groups have committed, by topic id (G9).
type Offsets interface {
	// CommitOffsets writes a batch in one transaction. errs has one entry per write: nil,
	// ErrUnknownTopic, ErrFenced. err is for the whole batch (nothing is known of it).
	CommitOffsets(ctx context.Context, ws []OffsetWrite) (errs []error, err error)
	// GroupOffsets reads all rows of a group.
	GroupOffsets(ctx context.Context, group string) ([]CommittedOffset, error)
	// DeleteOffsets removes the named rows; absent ones are no error. An empty list removes all rows
	// of the group (DeleteGroups). ErrFenced.
	DeleteOffsets(ctx context.Context, g SlotGuard, group string, ps []PartitionID) error
	// OffsetGroups lists the groups that have rows, with the time of their last commit.
	OffsetGroups(ctx context.Context) (map[string]time.Time, error)
}

// CoordinatorSlots shows who coordinates; the controller gives the slots ([Controllers]).
type CoordinatorSlots interface {
	// SlotHolders lists who holds which slot.
	SlotHolders(ctx context.Context) ([]SlotGuard, error)
}

// Store is the whole catalog, as the two drivers implement it. Only cmd and broker know it; every
// other consumer takes the small interface that it needs.
type Store interface {
	Clusters
	Brokers
	Topics
	States
	Replicas
	Segments
	Uploads
	Removals
	Jobs
	Offsets
	CoordinatorSlots
	Controllers
	Rewinds
	LostSegments
	Resignations
	Inventory
	Restores
	// Close ends all connections; calls in flight fail.
	Close() error
}
