package compaction

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/catalog"
	"tidemark/record"
)

// Options of a Worker. Catalog, Objects and Incarnation are required; zero values of the rest mean the
// default in brackets.
type Options struct {
	Catalog Catalog
	Objects Objects
	// Broker and Incarnation hold the jobs: a broker's own, or catalog.NoBroker and a random number.
	Broker      catalog.BrokerID
	Incarnation catalog.Incarnation
	// WatchOnly: look, and call Cleaned, but leave the work to others.
	WatchOnly bool
	// Cleaned, if not nil, is told up to where a partition that compacts is clean: whenever its rows were
	// read, and before what waits in them begins to wait.
	Cleaned func(p catalog.PartitionID, to record.Offset)
	// Workers is how many partitions are worked on at once [1].
	Workers int
	// Memory bounds what one worker holds besides the object that it makes, bytes [64 MiB].
	Memory int64
	// Samples is how many digests of an average object a pass looks at before it decides which objects it reads
	// [4096]; where all objects have hardly more it reads all.
	Samples int
	// Lease is how long a job's lease must stand still before another takes it [10 s]; it is raised five
	// times as often.
	Lease time.Duration
	// Pause is the least time between two looks at a partition, MergePause at one that only deletes and had
	// nothing to join [1 s, 5 min].
	Pause, MergePause time.Duration
	// MergeAge is how old rows of a topic that only deletes are before they are joined [10 min].
	MergeAge time.Duration
	// RetryMax bounds the wait after a failure, which doubles from Pause on [30 s].
	RetryMax time.Duration

	Logger  *slog.Logger          // [slog.Default()]
	Metrics prometheus.Registerer // nil: none registered
}

// Validate fills in the defaults and reports every fault at once.
func (o *Options) Validate() error {
	var faults []error
	if o.Catalog == nil || o.Objects == nil {
		faults = append(faults, errors.New("compaction: Catalog and Objects are required"))
	}
	if o.Incarnation <= 0 {
		faults = append(faults, errors.New("compaction: Incarnation is required"))
	}
	if o.Cleaned == nil {
		o.Cleaned = func(catalog.PartitionID, record.Offset) {}
	}
	orDefault(&o.Workers, 1)
	orDefault(&o.Memory, 64<<20)
	orDefault(&o.Samples, 4096)
	orDefault(&o.Lease, 10*time.Second)
	orDefault(&o.Pause, time.Second)
	orDefault(&o.MergePause, 5*time.Minute)
	orDefault(&o.MergeAge, 10*time.Minute)
	orDefault(&o.RetryMax, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return errors.Join(faults...)
}

func orDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
