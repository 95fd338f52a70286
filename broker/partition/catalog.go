package partition

import (
	"context"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// Catalog is what partitions ask and tell the catalog; catalog.Store has it.
type Catalog interface {
	// Partition reads one row as it is now.
	Partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error)
	// Standings reads what new leaders ask of their partitions.
	Standings(ctx context.Context, ps []catalog.PartitionID) (map[catalog.PartitionID]catalog.Standing, error)
	// PartitionBounds reads the bounds of many rows.
	PartitionBounds(ctx context.Context, ps []catalog.PartitionID) (map[catalog.PartitionID]catalog.Bounds, error)
	// ListSegments lists live rows in offset order.
	ListSegments(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error)
	// MoveStart raises start (R8).
	MoveStart(ctx context.Context, p catalog.PartitionID, g catalog.Guard, o record.Offset) (catalog.Bounds, bool, error)
	// AlterISR changes in-sync sets by compare-and-set and returns the rows as they stand now (H7).
	AlterISR(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, epochs []record.Epoch, cs []catalog.ISRChange) ([]catalog.Partition, error)
	// Resign takes this broker out of partitions whose log has failed (H28).
	Resign(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, ps []catalog.PartitionID) error
	// LostPartitions lists the partitions of which the catalog has lost rows (H3).
	LostPartitions(ctx context.Context) ([]catalog.PartitionID, error)
	// Time is the database's clock (R13).
	Time(ctx context.Context) (time.Time, error)
}
