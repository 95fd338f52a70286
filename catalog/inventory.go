package catalog

import "context"

// ObjectName is an object's key and the attempt id that ends it.
type ObjectName struct{ Key, Attempt string }

// Naming says by what an object is named.
type Naming int

const (
	// NotNamed: nothing names the object, so it does not exist (R1).
	NotNamed Naming = iota
	// NamedLive: a live row.
	NamedLive
	// NamedByIntent: an attempt that is not decided yet.
	NamedByIntent
	// NamedAsGarbage: a garbage row.
	NamedAsGarbage
)

// Inventory looks at the catalog as a whole: for checkpoints, and to compare it with the bucket.
type Inventory interface {
	// SegmentsAfter lists up to limit live rows of all partitions whose id is above after, by id. Ids
	// are given before COMMIT: a row that appears later may have a somewhat smaller one.
	SegmentsAfter(ctx context.Context, after SegmentID, limit int) ([]Segment, error)
	// OffsetsAfter lists up to limit committed offsets of all groups by (group, topic, partition),
	// from behind the key of after; the zero value begins at the first.
	OffsetsAfter(ctx context.Context, after CommittedOffset, limit int) ([]CommittedOffset, error)
	// Named says, on one snapshot, by what each object is named; a missing entry is NotNamed.
	Named(ctx context.Context, objects []ObjectName) (map[string]Naming, error)
	// DiscardStrays writes garbage rows for those of the objects that nothing names (R8), and returns
	// how many they are.
	DiscardStrays(ctx context.Context, objects []ObjectName) (int, error)
	// RaiseGeneration sets the cluster's generation to from+1 if it is from, and returns the row as it
	// is then.
	RaiseGeneration(ctx context.Context, from int64) (ClusterRow, error)
}

// Restores writes an empty catalog again from copies outside it. Every call may be repeated. All but
// BeginRestore and Restoring are ErrInvalid on a catalog that is not being restored.
type Restores interface {
	// BeginRestore gives an empty catalog the cluster's id and generation, puts the counter above
	// version, and marks the catalog as incomplete. One that carries the mark and this cluster's id is
	// gone on with and keeps its generation. A catalog with topics or segments is ErrNotEmpty.
	BeginRestore(ctx context.Context, c ClusterRow, version Version) (ClusterRow, error)
	// Restoring reports whether the mark is set: no broker may work with the catalog.
	Restoring(ctx context.Context) (bool, error)
	// RestoreBrokers writes brokers that are not live, so that they may keep their incarnations.
	RestoreBrokers(ctx context.Context, bs []Broker) error
	// RestoreTopic writes a topic and its partitions without leader and with an empty tier at Start.
	RestoreTopic(ctx context.Context, t Topic, ps []Partition) error
	// RestoreSegments adds rows, in offset order, that continue the partition's tier; rows that lie
	// below tiered are there already and are passed over. ErrNotContiguous, ErrUnknownTopic.
	RestoreSegments(ctx context.Context, p PartitionID, rows []Segment) (Bounds, error)
	// RestoreOffsets writes committed offsets; those of unknown topics are left out.
	RestoreOffsets(ctx context.Context, os []CommittedOffset) error
	// EndRestore removes the mark.
	EndRestore(ctx context.Context) error
}
