package catalog

import (
	"context"

	"tidemark/record"
)

// Publication is a row as its broker has it in its own record: enough to publish it once more.
type Publication struct {
	Segment
	// Replaced are the attempts of the rows that a merge or compaction replaces; none: an upload.
	Replaced []string `json:",omitempty"`
	// Relies is the end of the rows by which a compaction judged what goes: a record went because a newer one of its key
	// lies below it. 0: nothing went.
	Relies record.Offset `json:",omitempty"`
}

// LostSegments is what brokers have published and the catalog does not have, because it has lost commits (H2, H3). A row
// here makes nothing exist: only its partition's leader may publish it again, by [Uploads] (R1).
type LostSegments interface {
	// ReportLost is told rows that the caller has published. Those that nothing names are kept, but for those of deleted
	// topics and those wholly below start; it returns how many of the given ones are lost, kept before or now. A topic
	// that the catalog does not know and has no tombstone of may be lost itself: its rows are kept, for a week. A row that
	// only a job's intent names is kept and not counted: its swap may be lost, or was never sent.
	ReportLost(ctx context.Context, rows []Publication) (lost int, err error)
	// LostPartitions lists the partitions of live topics that lost rows are kept of.
	LostPartitions(ctx context.Context) ([]PartitionID, error)
	// LostSegments lists the lost rows of a partition, the one that reaches farthest first.
	LostSegments(ctx context.Context, p PartitionID) ([]Publication, error)
	// SettleLost forgets lost rows: each has become an intent, a live row or garbage.
	SettleLost(ctx context.Context, attempts []string) error
	// SwapLost publishes a lost row in the place of live ones, as [Jobs.Swap] does, under the leader's guard: its intent
	// deleted, all of old live, adjacent, of lower generations and the new row's range. Where old ends at tiered the
	// row may reach farther, over what was uploaded and lost as well; tiered then moves to its end. A swap that
	// already happened is answered as done. ErrFenced, ErrIntentGone, ErrNotContiguous, ErrUnknownTopic.
	SwapLost(ctx context.Context, g Guard, old []SegmentID, s Segment) (Bounds, error)
}
