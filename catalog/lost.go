package catalog

import "context"

// LostSegments is what brokers have published and the catalog does not have, because it has lost commits (H2, H3). A row
// here makes nothing exist: only its partition's leader may publish it again, by [Uploads] (R1).
type LostSegments interface {
	// ReportLost is told rows that the caller has published. Those that nothing names are kept, but for those of deleted
	// topics and those wholly below start; it returns how many of the given ones are lost, kept before or now. A topic
	// that the catalog does not know and has no tombstone of may be lost itself: its rows are kept, for a week.
	ReportLost(ctx context.Context, rows []Segment) (lost int, err error)
	// LostPartitions lists the partitions of live topics that lost rows are kept of.
	LostPartitions(ctx context.Context) ([]PartitionID, error)
	// LostSegments lists the lost rows of a partition, the one that reaches farthest first.
	LostSegments(ctx context.Context, p PartitionID) ([]Segment, error)
	// SettleLost forgets lost rows: each has become an intent, a live row or garbage.
	SettleLost(ctx context.Context, attempts []string) error
}
