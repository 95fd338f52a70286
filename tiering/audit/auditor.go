package audit

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/objstore"
)

// Catalog is what an audit asks; catalog.Store has it.
type Catalog interface {
	// Partition reads one row as it is now.
	Partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error)
	// SegmentAt and ListSegments read live rows.
	SegmentAt(ctx context.Context, p catalog.PartitionID, o record.Offset) (catalog.Segment, error)
	ListSegments(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error)
	// Named and DiscardStrays look at objects by name.
	Named(ctx context.Context, objects []catalog.ObjectName) (map[string]catalog.Naming, error)
	DiscardStrays(ctx context.Context, objects []catalog.ObjectName) (int, error)
}

// Options of an Auditor. Store (with the priority of GC), Catalog and Cluster are required.
type Options struct {
	Store   objstore.Store
	Catalog Catalog
	Cluster catalog.UUID
	// Workers is how many objects are read at once [4].
	Workers int
	// CallTimeout is the deadline of one call [30 s].
	CallTimeout time.Duration
	Logger      *slog.Logger // [slog.Default()]
	// Now is the clock by which objects are young or old [time.Now].
	Now func() time.Time
}

// Auditor checks. It may be used from any goroutine.
type Auditor struct{ o Options }

// New makes an Auditor.
func New(o Options) (*Auditor, error) {
	if o.Store == nil || o.Catalog == nil || o.Cluster == (catalog.UUID{}) {
		return nil, errors.New("audit: Store, Catalog and Cluster are required")
	}
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Auditor{o}, nil
}

// call gives one call its deadline.
func (a *Auditor) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.o.CallTimeout)
}
