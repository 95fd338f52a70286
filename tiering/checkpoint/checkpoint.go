package checkpoint

import (
	"time"

	"tidemark/catalog"
)

// Checkpoint is a head: everything of the catalog but the rows of live segments, which lie in parts.
type Checkpoint struct {
	Cluster    catalog.UUID
	Generation int64
	// Number rises with each checkpoint of a generation.
	Number int64
	At     time.Time // database time
	// Position is where the counter stood: a catalog of this generation that does not hold it has gone
	// back in time (H2).
	Position catalog.Position
	// Brokers are those that were registered, by id.
	Brokers []catalog.Broker
	Topics  []Topic
	// Deleted are topics that were in a checkpoint once and are no more: rebuild never revives them.
	Deleted []Deleted
	Offsets []catalog.CommittedOffset
	// OffsetsCut says that there were more offsets than a checkpoint holds.
	OffsetsCut bool

	// Parts hold the rows, to be applied in order: a row replaces older ones that it overlaps.
	Parts []Part
	// FullNumber, FullAt and FullRows are of the full checkpoint that this one is or continues;
	// Watermark is the largest row id that it has seen.
	FullNumber int64
	FullAt     time.Time
	FullRows   int64
	Watermark  catalog.SegmentID
	// Content is a digest of all that would make a new checkpoint worth writing.
	Content string
}

// Topic is a topic with its partitions by number.
type Topic struct {
	catalog.Topic
	Partitions []catalog.Partition
}

// Deleted is a topic that is gone.
type Deleted struct {
	Topic catalog.TopicID
	At    time.Time // of the first checkpoint without it
}

// Part is an object with rows.
type Part struct {
	Key    string `json:"key"`
	Rows   int64  `json:"rows"`
	SHA256 []byte `json:"sha256"`
}

// prefix begins the keys of all checkpoints.
const prefix = "checkpoints/"
