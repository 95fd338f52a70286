package tiering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/catalog"
	"tidemark/tiering/cache"
	"tidemark/tiering/objstore"
)

// Catalog is what the tier needs of the catalog; [catalog.Store] has it.
type Catalog interface {
	catalog.Segments
	catalog.Uploads
	catalog.Removals
	catalog.LostSegments
	// PutJobIntent announces an object that a compaction or merge is about to put.
	PutJobIntent(ctx context.Context, j catalog.Job, in catalog.Intent) error
	// Partition reads one row as it is now.
	Partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error)
	// PurgeStep turns rows and intents of deleted topics into garbage, in bounded steps (H33).
	PurgeStep(ctx context.Context, limit int) (more bool, err error)
}

// Options of a Tier. Store, Catalog, Cache and Cluster are required; zero values of the rest mean
// the default in brackets.
type Options struct {
	// Store is the bucket, for reads; UploadStore, RewriteStore and RemoveStore are the same bucket under
	// the lower priorities of uploads, compaction and removal [Store]: objstore.Limiter's For with
	// ColdRead, Upload, Compaction and GC. The limiter bounds bandwidth and concurrency and backs off
	// when the bucket throttles.
	Store, UploadStore, RewriteStore, RemoveStore objstore.Store

	Catalog Catalog
	// Cache keeps chunks of data; the caller opens and closes it.
	Cache *cache.Cache
	// Cluster is the catalog's cluster id; it is the first element of every key, and cluster.json in
	// the bucket must name it. Generation is the catalog's (H2).
	Cluster    catalog.UUID
	Generation int64
	// Holds says that the catalog names objects. A bucket without cluster.json is then the wrong one, or its disk
	// is not mounted: it is waited for, and nothing is written to it.
	Holds bool

	// TailBytes bounds the memory for parsed tails [64 MiB].
	TailBytes int64
	// ChunkBytes is how much one ranged GET of data asks for, up to one batch more [6 MiB: with the
	// tail's, one GET per 4 MiB of a full object at most].
	ChunkBytes int64
	// ReadAhead is how many chunks a sequential reader is kept ahead at most [4].
	ReadAhead int
	// ReadConcurrency bounds the cold reads in progress; others wait in the order they came [32].
	ReadConcurrency int
	// ReadTimeout is the deadline of one cold read, all its steps together [60 s].
	ReadTimeout time.Duration
	// RowTTL is how long a row that was looked up is believed; longer only while the catalog is
	// away (R8) [5 s].
	RowTTL time.Duration

	// UploadConcurrency bounds the uploads in progress [4].
	UploadConcurrency int
	// PutTimeout is the deadline of one PUT [5 min]; CallTimeout that of any other call [30 s].
	PutTimeout, CallTimeout time.Duration
	// RetryMin and RetryMax bound the wait after a failed upload, doubled each time [250 ms, 30 s].
	RetryMin, RetryMax time.Duration
	// Poll bounds how long a led partition that nobody wakes is not looked at [5 s].
	Poll time.Duration

	// ProducerIdle is producer.id.expiration.ms: older producers are not carried on (P7) [24 h].
	ProducerIdle time.Duration

	// Grace is R8's: from the garbage row to the first DELETE [10 min]. It must be longer than RowTTL.
	Grace time.Duration
	// Again is the time from the first DELETE to the second [24 h].
	Again time.Duration
	// MayCollect is asked before each round of removal; false postpones it (H2) [always].
	MayCollect func() bool
	// Journal is told each row before it is published, by uploads and rewrites [none].
	Journal Journal
	// WentBack is called when a partition's tiered is found below what it was; it must not block [nothing].
	WentBack func()
	// CollectEvery is the pause between two rounds of removal [Grace/4, from 1 s to 1 min].
	CollectEvery time.Duration

	Logger  *slog.Logger          // [slog.Default()]
	Metrics prometheus.Registerer // nil: none registered
}

// Validate fills in the defaults and reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	missing := func(is bool, name string) {
		if is {
			faults = append(faults, fmt.Errorf("tiering: %s is required", name))
		}
	}
	missing(o.Store == nil, "Store")
	missing(o.Catalog == nil, "Catalog")
	missing(o.Cache == nil, "Cache")
	missing(o.Cluster == (catalog.UUID{}), "Cluster")
	orDefault(&o.TailBytes, 64<<20)
	orDefault(&o.ChunkBytes, 6<<20)
	orDefault(&o.ReadAhead, 4)
	orDefault(&o.ReadConcurrency, 32)
	orDefault(&o.ReadTimeout, time.Minute)
	orDefault(&o.RowTTL, 5*time.Second)
	orDefault(&o.UploadConcurrency, 4)
	orDefault(&o.PutTimeout, 5*time.Minute)
	orDefault(&o.CallTimeout, 30*time.Second)
	orDefault(&o.RetryMin, 250*time.Millisecond)
	orDefault(&o.RetryMax, 30*time.Second)
	orDefault(&o.Poll, 5*time.Second)
	orDefault(&o.ProducerIdle, 24*time.Hour)
	orDefault(&o.Grace, 10*time.Minute)
	orDefault(&o.Again, 24*time.Hour)
	orDefault(&o.CollectEvery, min(max(o.Grace/4, time.Second), time.Minute))
	if o.Grace <= o.RowTTL {
		faults = append(faults, fmt.Errorf("tiering: Grace %v must be longer than RowTTL %v, for which a reader may hold a pointer (R8)", o.Grace, o.RowTTL))
	}
	if o.RetryMax < o.RetryMin {
		faults = append(faults, fmt.Errorf("tiering: RetryMax %v is below RetryMin %v", o.RetryMax, o.RetryMin))
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return errors.Join(faults...)
}

// orDefault sets a number that was left at zero, or is negative, to its default.
func orDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
