package catalog

import (
	"context"

	"tidemark/record"
)

// Topic is a live topic.
type Topic struct {
	ID      TopicID
	Name    string
	Configs map[string]string // overrides only
	Version Version
}

// Member is one entry of an in-sync or eligible set: a broker as it was when it joined (KIP-903).
type Member struct {
	Broker      BrokerID
	Incarnation Incarnation
}

// Partition is a partition's row.
type Partition struct {
	ID          PartitionID
	Leader      BrokerID // NoBroker while there is none
	LeaderEpoch record.Epoch
	ISR         []Member
	ELR         []Member   // KIP-966
	Replicas    []BrokerID // the preferred leader first
	// Adding and Removing are those of Replicas that a move adds and takes away; nil while the partition
	// does not move.
	Adding, Removing []BrokerID
	// Version moves with Leader, ISR, ELR and Replicas only (H39).
	Version Version
	Bounds
}

// Bounds are the parts of a partition's row that move without the counter.
type Bounds struct {
	// Start is the log start offset; never falls.
	Start record.Offset
	// Tiered is the exclusive end of what the object tier holds; never falls; ≥ Start.
	Tiered record.Offset
	// TierBytes is the size of all live objects of the partition.
	TierBytes int64
}

// NewTopic asks for a topic. ID is chosen by the caller and is the natural key of the call: creating
// the same ID and name again succeeds with what is there.
type NewTopic struct {
	ID      TopicID
	Name    string
	Configs map[string]string
	// Place returns the replicas of each partition, the preferred leader first, given the registered brokers that
	// may get replicas, live or not, as the catalog shows them in the same transaction. One replica of each
	// partition must be on a live one. An error of Place is returned as is.
	Place func(brokers []Broker) ([][]BrokerID, error)
}

// ConfigChange sets (Value != nil) or removes (nil) one override.
type ConfigChange struct {
	Name  string
	Value *string
}

// Topics creates, changes and deletes topics. Each call moves the counter once.
type Topics interface {
	// CreateTopic makes the topic and its partitions; the first live replica of each leads with
	// epoch 0 and the live replicas are the ISR. ErrTopicExists if another live topic has the name.
	CreateTopic(ctx context.Context, t NewTopic) (Topic, error)
	// DeleteTopic frees the name and removes the committed offsets at once; rows and intents become
	// garbage later, in steps (PurgeStep). Deleting a deleted id again succeeds; an id that never
	// was is ErrUnknownTopic.
	DeleteTopic(ctx context.Context, id TopicID) error
	// AddPartitions raises the partition count; place is NewTopic's Place and returns the replicas
	// of the new partitions only. total ≤ the present count is ErrInvalid.
	AddPartitions(ctx context.Context, id TopicID, total int, place func(brokers []Broker) ([][]BrokerID, error)) error
	// AlterConfigs applies the changes to the overrides; replace drops those not named first. A changed
	// min.insync.replicas empties the topic's eligible sets; who decides by the value that was makes none (H6).
	AlterConfigs(ctx context.Context, id TopicID, changes []ConfigChange, replace bool) error
	// PurgeStep turns up to limit segment rows and intents of deleted topics into garbage rows and
	// drops what is then empty; more says whether there is more to do (H33).
	PurgeStep(ctx context.Context, limit int) (more bool, err error)
}

// Position is how far a broker has followed the counter. The zero value asks for everything.
type Position struct {
	Version Version
	Nonce   int64 // the ledger's nonce of Version
}

// Changes is what has changed since a position.
type Changes struct {
	Position Position
	// Full says that the lists are complete: whatever is not in them is gone.
	Full       bool
	Brokers    []Broker
	Topics     []Topic
	Partitions []Partition
	Deleted    []TopicID // tombstones; only if !Full
	Slots      []SlotGuard
}

// Election names a new leader for one partition.
type Election struct {
	ID     PartitionID
	Leader BrokerID // NoBroker takes the leader away
	ISR    []Member
	ELR    []Member
	// Replicas, if it is not nil, are the replicas from now on, and a move that was going on has ended.
	Replicas []BrokerID
	// IfVersion is the row's version that the decision was made on; another one skips the entry.
	IfVersion Version
	// IfTopic is the version of the topic that min.insync.replicas was read at: if the topic has changed since,
	// nobody is eligible after an election that decides about it (H6).
	IfTopic Version
}

// Standing is what a new leader asks of its partition.
type Standing struct {
	Partition
	// Left says that there are intents of earlier uploads, or rows that the catalog has lost. Nobody but the leader whom
	// the row names can add to the former.
	Left bool
}

// States is the pull side of the cluster state.
type States interface {
	// Pull returns what changed after since. ErrRewound if the ledger does not hold since.
	Pull(ctx context.Context, since Position) (Changes, error)
	// Partition reads one row as it is now.
	Partition(ctx context.Context, p PartitionID) (Partition, error)
	// Standings reads many rows as they are now, in one statement; unknown ones are left out.
	Standings(ctx context.Context, ps []PartitionID) (map[PartitionID]Standing, error)
	// PartitionBounds reads the bounds of many rows; unknown ones are left out.
	PartitionBounds(ctx context.Context, ps []PartitionID) (map[PartitionID]Bounds, error)
}
