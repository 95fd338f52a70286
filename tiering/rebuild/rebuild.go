package rebuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark/catalog"
	"tidemark/tiering/checkpoint"
	"tidemark/tiering/objstore"
)

// Catalog is the one to write; catalog.Store has it.
type Catalog interface {
	catalog.Restores
	// Brokers lists who has registered.
	Brokers(ctx context.Context) ([]catalog.Broker, error)
	// Partition reads one row as it is now.
	Partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error)
}

// Options of a rebuild. Store and Catalog are required; zero values of the rest mean the default in
// brackets.
type Options struct {
	Store   objstore.Store
	Catalog Catalog
	// Broker gets the partitions of topics of which no checkpoint tells.
	Broker catalog.BrokerID
	// Workers is how many objects are read at once [8].
	Workers int
	// CallTimeout is the deadline of one call, ReadTimeout that of reading one object whole [30 s, 5 min].
	CallTimeout, ReadTimeout time.Duration
	// Watch is how long the leases of registered brokers must stand still [3 s].
	Watch time.Duration
	// Say tells what is being done, a sentence each; nil: nobody listens.
	Say func(string)
}

// Errors of a rebuild, besides catalog.ErrNotEmpty and those of store and catalog.
var (
	// ErrBrokerRuns: a broker works with this catalog.
	ErrBrokerRuns = errors.New("a broker is running")
	// ErrNothing: the bucket holds neither cluster.json nor a checkpoint nor an object.
	ErrNothing = errors.New("the bucket holds nothing to rebuild from")
	// ErrUnclear: the bucket's cluster cannot be told.
	ErrUnclear = errors.New("the bucket holds objects of several clusters")
)

// Report is what a rebuild has done, and what it could not decide.
type Report struct {
	Cluster    catalog.UUID
	Generation int64
	// Checkpoint is the time of the one that was used; zero: none was.
	Checkpoint time.Time
	Topics     int
	Partitions int
	// Segments is the number of rows, FromCheckpoint and FromObjects where they came from, Bytes their
	// size. Lost rows' objects are not in the bucket.
	Segments, FromCheckpoint, FromObjects, Lost int64
	Bytes                                       int64
	// Left is the number of objects that got no row: replaced, removed, never published, or of deleted
	// topics.
	Left      int64
	Offsets   int
	Undecided []string
}

// rebuilding is one rebuild at work.
type rebuilding struct {
	o      Options
	report Report
	saved  *checkpoint.Checkpoint // nil: there is none
	rows   map[catalog.PartitionID][]catalog.Segment
	bucket inventory
}

// Run rebuilds. It may be called again after it failed or was killed.
func Run(ctx context.Context, o Options) (Report, error) {
	orDefault(&o.Workers, 8)
	orDefault(&o.CallTimeout, 30*time.Second)
	orDefault(&o.ReadTimeout, 5*time.Minute)
	orDefault(&o.Watch, 3*time.Second)
	if o.Say == nil {
		o.Say = func(string) {}
	}
	r := &rebuilding{o: o}
	steps := []func(context.Context) error{
		r.refuseBrokers, r.readCheckpoint, r.identify, r.list, r.begin, r.topics, r.strangers, r.offsets, r.end,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

func orDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

func (r *rebuilding) say(format string, args ...any) { r.o.Say(fmt.Sprintf(format, args...)) }

func (r *rebuilding) undecided(format string, args ...any) {
	r.report.Undecided = append(r.report.Undecided, fmt.Sprintf(format, args...))
}

func (r *rebuilding) call(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.o.CallTimeout)
}

// refuseBrokers watches the leases of brokers that the catalog calls live: one that moves is of a broker
// that runs (R13).
func (r *rebuilding) refuseBrokers(ctx context.Context) error {
	first, err := r.leases(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	r.say("Waiting to see whether a registered broker is alive.")
	end := time.NewTimer(r.o.Watch)
	defer end.Stop()
	select {
	case <-end.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	now, err := r.leases(ctx)
	for id, lease := range now {
		if old, known := first[id]; !known || lease != old {
			return fmt.Errorf("%w: broker %d renews its lease in this catalog; stop it first", ErrBrokerRuns, id)
		}
	}
	return err
}

func (r *rebuilding) leases(ctx context.Context) (map[catalog.BrokerID]int64, error) {
	ctx, cancel := r.call(ctx)
	defer cancel()
	all, err := r.o.Catalog.Brokers(ctx)
	out := map[catalog.BrokerID]int64{}
	for _, b := range all {
		if b.Live {
			out[b.ID] = b.Lease
		}
	}
	return out, err
}

func (r *rebuilding) readCheckpoint(ctx context.Context) error {
	saved, damaged, err := checkpoint.Newest(ctx, r.o.Store, -1)
	for _, d := range damaged {
		r.undecided("a checkpoint is damaged, an older one was used: %v", d)
	}
	if errors.Is(err, checkpoint.ErrNone) {
		r.say("The bucket has no checkpoint: everything comes from the objects' footers.")
		return nil
	}
	if err != nil {
		return err
	}
	r.saved = saved
	r.report.Checkpoint = saved.At
	if r.rows, damaged, err = saved.Rows(ctx, r.o.Store); err != nil {
		return err
	}
	for _, d := range damaged {
		r.undecided("a part of the checkpoint is lost, its rows were made from the objects: %v", d)
	}
	r.say("The newest checkpoint is of %s (generation %d).", saved.At.UTC().Format(time.RFC3339), saved.Generation)
	return nil
}

// identity is cluster.json.
type identity struct {
	Cluster    string `json:"cluster"`
	Generation int64  `json:"generation"`
}

const identityKey = "cluster.json"

// identify finds out whose bucket it is, and the generation of the catalog that will be written: above
// every one that was.
func (r *rebuilding) identify(ctx context.Context) error {
	f, err := r.readIdentity(ctx)
	if err != nil {
		return err
	}
	switch {
	case f.Cluster != "":
		if r.report.Cluster, err = catalog.ParseUUID(f.Cluster); err != nil {
			return fmt.Errorf("%s: %w", identityKey, err)
		}
	case r.saved != nil:
		r.report.Cluster = r.saved.Cluster
	default:
		if r.report.Cluster, err = r.onlyCluster(ctx); err != nil {
			return err
		}
	}
	r.report.Generation = f.Generation
	if r.saved != nil {
		if r.saved.Cluster != r.report.Cluster {
			return fmt.Errorf("%w: %s names %s, the newest checkpoint is of %s", ErrUnclear, identityKey, r.report.Cluster, r.saved.Cluster)
		}
		r.report.Generation = max(r.report.Generation, r.saved.Generation)
	}
	r.report.Generation++
	return nil
}

func (r *rebuilding) readIdentity(ctx context.Context) (identity, error) {
	ctx, cancel := r.call(ctx)
	defer cancel()
	var f identity
	info, err := r.o.Store.Stat(ctx, identityKey)
	if errors.Is(err, objstore.ErrNotFound) {
		return f, nil
	}
	if err != nil || info.Size > 4096 {
		return f, errors.Join(err, fmt.Errorf("%s has %d bytes", identityKey, info.Size))
	}
	raw := make([]byte, info.Size)
	if err := r.o.Store.ReadRange(ctx, identityKey, 0, raw); err != nil {
		return f, err
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, fmt.Errorf("%s: %w", identityKey, err)
	}
	return f, nil
}

// onlyCluster is the one cluster whose objects the bucket holds.
func (r *rebuilding) onlyCluster(ctx context.Context) (catalog.UUID, error) {
	var found catalog.UUID
	for after := ""; ; {
		call, cancel := r.call(ctx)
		infos, err := r.o.Store.List(call, "segments/", after, 1)
		cancel()
		if err != nil {
			return found, err
		}
		if len(infos) == 0 {
			if found == (catalog.UUID{}) {
				return found, ErrNothing
			}
			return found, nil
		}
		hex, _, _ := strings.Cut(strings.TrimPrefix(infos[0].Key, "segments/"), "/")
		id, err := catalog.ParseUUID(hex)
		if err != nil || found != (catalog.UUID{}) {
			return found, fmt.Errorf("%w: %s is there too", ErrUnclear, infos[0].Key)
		}
		// The next key that does not begin so is another cluster's.
		found, after = id, "segments/"+hex+"0" // '0' follows '/'
	}
}

// begin marks the catalog.
func (r *rebuilding) begin(ctx context.Context) error {
	var version catalog.Version
	var brokers []catalog.Broker
	if r.saved != nil {
		version, brokers = r.saved.Position.Version, r.saved.Brokers
	}
	ctx, cancel := r.call(ctx)
	defer cancel()
	row, err := r.o.Catalog.BeginRestore(ctx, catalog.ClusterRow{ID: r.report.Cluster, Generation: r.report.Generation}, version)
	if err != nil {
		return err
	}
	r.report.Generation = row.Generation
	return r.o.Catalog.RestoreBrokers(ctx, brokers)
}

// offsets writes what groups had committed.
func (r *rebuilding) offsets(ctx context.Context) error {
	if r.saved == nil {
		r.undecided("what groups have committed is not in the objects: groups begin as their clients' auto.offset.reset says")
		return nil
	}
	const page = 1000
	for from := 0; from < len(r.saved.Offsets); from += page {
		call, cancel := r.call(ctx)
		err := r.o.Catalog.RestoreOffsets(call, r.saved.Offsets[from:min(from+page, len(r.saved.Offsets))])
		cancel()
		if err != nil {
			return err
		}
	}
	r.report.Offsets = len(r.saved.Offsets)
	if r.saved.OffsetsCut {
		r.undecided("the checkpoint did not hold all committed offsets")
	}
	r.undecided("what happened after %s is known from objects only: commits of groups, changes of configs, deleted topics, moves of the log start and of leaders since then are lost", r.saved.At.UTC().Format(time.RFC3339))
	return nil
}

// end moves the generation in the bucket and removes the mark.
func (r *rebuilding) end(ctx context.Context) error {
	ctx, cancel := r.call(ctx)
	defer cancel()
	raw, err := json.Marshal(identity{r.report.Cluster.Hex(), r.report.Generation})
	if err != nil {
		return err
	}
	if err := r.o.Store.Put(ctx, identityKey, objstore.Bytes(append(raw, '\n')), objstore.PutOptions{}); err != nil {
		return fmt.Errorf("move the generation in the bucket: %w", err)
	}
	return r.o.Catalog.EndRestore(ctx)
}
