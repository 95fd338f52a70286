package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tidemark/catalog"
)

// Offsets is where commits are kept: the catalog's stores have these methods.
type Offsets interface {
	// CommitOffsets writes a batch in one transaction. errs has one entry per
	// write: nil (durable), catalog.ErrUnknownTopic or catalog.ErrFenced. err
	// is for the whole batch, of which then nothing is known.
	CommitOffsets(ctx context.Context, ws []catalog.OffsetWrite) (errs []error, err error)
	// GroupOffsets reads all rows of a group, or fails.
	GroupOffsets(ctx context.Context, group string) ([]catalog.CommittedOffset, error)
	// DeleteOffsets removes the named rows; an empty list removes all of the
	// group's.
	DeleteOffsets(ctx context.Context, g catalog.SlotGuard, group string, ps []catalog.PartitionID) error
	// OffsetGroups lists the groups that have rows, with their last commit.
	OffsetGroups(ctx context.Context) (map[string]time.Time, error)
}

// Topics translates between names and ids, from memory.
type Topics interface {
	TopicID(name string) (catalog.TopicID, bool)
	TopicName(id catalog.TopicID) (string, bool)
}

// Options are the Coordinator's settings and ports. Zero settings have the
// defaults that are named; the ports are required.
type Options struct {
	Offsets Offsets
	Topics  Topics
	// Guard returns the guard of the slot (SlotOf) that a group belongs to; ok
	// is false if this broker does not coordinate it. It must be quick.
	Guard func(group string) (guard catalog.SlotGuard, ok bool)
	// Sure says whether Guard is sure enough for answers that no write stands
	// behind: false once the lease is over by the own clock, when
	// another broker may coordinate. Offsets are not told then, nor commits that
	// change nothing acknowledged (G2). Default: always. It must be quick.
	Sure func() bool

	// Group bounds each group (DefaultConfig).
	Group Config
	// MaxMemory bounds what all groups and their members hold together, in
	// bytes (64 MiB). Beyond it new groups and members, and members that come
	// back with more, are answered COORDINATOR_LOAD_IN_PROGRESS, upon which
	// clients try again; those who are in stay.
	MaxMemory int64
	// Window is how long commits are gathered into one statement, counted from
	// the start of the statement before (20 ms); a commit after a quiet time
	// goes out at once.
	Window time.Duration
	// MaxBatch and MaxQueued bound one statement and all that waits, in
	// entries (5 000 and 100 000); beyond, commits are answered
	// COORDINATOR_LOAD_IN_PROGRESS.
	MaxBatch, MaxQueued int
	// StoreTimeout bounds every call of Offsets (5 s).
	StoreTimeout time.Duration
	// MaxLoads bounds the reads of Offsets that run at once (8).
	MaxLoads int
	// MaxMetadata is offset.metadata.max.bytes (4096).
	MaxMetadata int
	// Retention is offsets.retention.minutes (7 d): how long the offsets of a
	// group without members are kept after its last commit and its last
	// member. They go all together.
	Retention time.Duration
	// SweepInterval is how often expired offsets are looked for (10 min).
	SweepInterval time.Duration
	// UnloadAfter is how long an unused group stays in memory (1 h).
	UnloadAfter time.Duration
	// Wall is the time that commits are expired by; ok is false while it is not
	// to be trusted, and nothing expires then (R13). Default: the system's.
	Wall func() (now time.Time, ok bool)

	// Log gets one line per failed batch, load or sweep.
	Log *slog.Logger
	// Metrics is counted into; nil counts nowhere.
	Metrics *Metrics
}

func orElse[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (o Options) withDefaults() Options {
	if o.Sure == nil {
		o.Sure = func() bool { return true }
	}
	orElse(&o.Group, DefaultConfig())
	orElse(&o.MaxMemory, 64<<20)
	orElse(&o.Window, 20*time.Millisecond)
	orElse(&o.MaxBatch, 5_000)
	orElse(&o.MaxQueued, 100_000)
	orElse(&o.StoreTimeout, 5*time.Second)
	orElse(&o.MaxLoads, 8)
	orElse(&o.MaxMetadata, 4096)
	orElse(&o.Retention, 7*24*time.Hour)
	orElse(&o.SweepInterval, 10*time.Minute)
	orElse(&o.UnloadAfter, time.Hour)
	if o.Wall == nil {
		o.Wall = func() (time.Time, bool) { return time.Now(), true }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return o
}

// Validate reports every fault of o at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Offsets == nil || o.Topics == nil || o.Guard == nil {
		errs = append(errs, errors.New("the ports Offsets, Topics and Guard are required"))
	}
	for name, d := range map[string]time.Duration{
		"Window": o.Window, "StoreTimeout": o.StoreTimeout, "Retention": o.Retention, "SweepInterval": o.SweepInterval,
		"UnloadAfter": o.UnloadAfter, "MinSessionTimeout": o.Group.MinSessionTimeout, "NewMemberTimeout": o.Group.NewMemberTimeout,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s is %v", name, d))
		}
	}
	for name, n := range map[string]int{
		"MaxBatch": o.MaxBatch, "MaxQueued": o.MaxQueued, "MaxLoads": o.MaxLoads, "MaxSize": o.Group.MaxSize,
	} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s is %d", name, n))
		}
	}
	if o.MaxMemory < 1 {
		errs = append(errs, fmt.Errorf("MaxMemory is %d", o.MaxMemory))
	}
	if o.Group.MaxSessionTimeout < o.Group.MinSessionTimeout || o.Group.InitialRebalanceDelay < 0 {
		errs = append(errs, fmt.Errorf("session timeouts %v to %v, initial delay %v", o.Group.MinSessionTimeout, o.Group.MaxSessionTimeout, o.Group.InitialRebalanceDelay))
	}
	return errors.Join(errs...)
}

// SlotOf is the coordinator slot of a group: Kafka's hash, so that tools that
// compute it agree.
func SlotOf(group string) int32 {
	var h int32
	for _, r := range group {
		if r > 0xffff { // Java hashes UTF-16 units
			r -= 0x10000
			h = 31*h + 0xd800 + r>>10
			r = 0xdc00 + r&0x3ff
		}
		h = 31*h + r
	}
	return h & 0x7fffffff % catalog.Slots
}
