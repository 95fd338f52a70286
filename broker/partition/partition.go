package partition

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/broker/topicconfig"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/retention"
	"tidemark/tiering"
)

// Partition is one partition on this broker. All methods are safe for concurrent use.
type Partition struct {
	ID   catalog.PartitionID
	Name string // of the topic

	env       *environment
	log       *hotlog.Log
	logConfig func(topicconfig.Topic) hotlog.Config
	// aligned is the newest leader epoch whose leader's log this one agrees with: the one that it led or was
	// last truncated for in this process; -1 before (R18).
	aligned  atomic.Int32
	failed   atomic.Bool // the log has failed, and who has to know does
	eligible atomic.Bool // the last row that another leads had this log in its ISR or ELR
	cfg      atomic.Pointer[topicconfig.Topic]
	// cfgVersion is the version of the topic that cfg is of, or an older one; stored after cfg.
	cfgVersion atomic.Int64
	out        *slog.Logger

	// roleMu is held in read mode over each append, in write mode while leadership, the leader that is
	// followed or the in-sync set changes.
	roleMu  sync.RWMutex
	role    atomic.Pointer[leadership] // nil: not leading
	follows atomic.Pointer[following]  // nil: not following

	hw     atomic.Int64
	start  atomic.Int64
	tiered atomic.Int64
	clean  atomic.Pointer[cleanTo]

	waiters waiters // for hw, start, leadership
	tail    waiters // for the log's end too: replicas' fetches

	// changed asks the housekeeping to look at the partition; due is when it wants to look again on
	// its own, in monotonic nanoseconds. Only the housekeeping writes due.
	changed atomic.Bool
	due     atomic.Int64
	flushAt atomic.Int64 // when the flusher looks at the log, 0: not in its queue

	mu        sync.Mutex // guards what follows; a leaf
	tierBytes int64
	looks     []look          // the catalog's floor over time, oldest first (R5)
	holds     []*hold         // ranges that uploads keep from being freed
	moreStart record.Offset   // a start whose rows are not all garbage yet, 0 if none
	expiry    int64           // wall ms at which retention has to look again
	expireNow bool            // retention has to look because something changed
	oldest    retention.Piece // of the tier, as the last look of retention left it
	damage    error           // of the local log, as the upload found it (A8)
}

// environment is what all partitions of a broker share.
type environment struct {
	catalog   Catalog
	tier      *tiering.Tier
	freeDelay time.Duration
	mono      func() time.Duration
	wall      func() time.Time
	pressure  *pressure
	metrics   *metrics
	flushes   *flusher
	lagMax    time.Duration // replica.lag.time.max.ms
	poke      func()        // wakes the housekeeping
	pokeISR   func()        // wakes the loop that changes in-sync sets
	logFailed func()        // a log has failed for good (H28)
	doubt     func()        // wakes the loop that asks the catalog who leads
}

func newPartition(id catalog.PartitionID, name string, cfg topicconfig.Topic, l *hotlog.Log, env *environment, out *slog.Logger) *Partition {
	p := &Partition{ID: id, Name: name, env: env, log: l, out: out}
	p.cfg.Store(&cfg)
	p.aligned.Store(int32(record.NoEpoch))
	p.expireNow = true
	p.changed.Store(true)
	return p
}

// Config is the topic's settings in force.
func (p *Partition) Config() *topicconfig.Topic { return p.cfg.Load() }

// leading returns the present leadership, or ErrNotLeader.
func (p *Partition) leading() (*leadership, error) {
	l := p.role.Load()
	if l == nil {
		return nil, fmt.Errorf("%w: %s-%d", ErrNotLeader, p.Name, p.ID.Partition)
	}
	if l.doubted() {
		return nil, fmt.Errorf("%w: %s-%d: another broker leads a higher epoch than %d", ErrNotLeader, p.Name, p.ID.Partition, l.guard.Epoch)
	}
	return l, nil
}

// LeaderEpoch is the epoch that this broker leads with, or record.NoEpoch.
func (p *Partition) LeaderEpoch() record.Epoch {
	if l := p.role.Load(); l != nil {
		return l.guard.Epoch
	}
	return record.NoEpoch
}

// checkEpoch compares the leader epoch that a client believes in with ours; -1 is not compared (KIP-320).
func checkEpoch(client, ours record.Epoch) error {
	switch {
	case client < 0 || client == ours:
		return nil
	case client < ours:
		return fmt.Errorf("%w: %d, the leader's is %d", ErrFencedEpoch, client, ours)
	default:
		return fmt.Errorf("%w: %d, the leader's is %d", ErrUnknownEpoch, client, ours)
	}
}

func (l *leadership) checkEpoch(client record.Epoch) error { return checkEpoch(client, l.guard.Epoch) }

// Offsets are the partition's bounds at one moment, as DESIGN §2 names them.
type Offsets struct {
	Start, LocalStart, Tiered, Stable, HW, End record.Offset
}

// Offsets reads the bounds; each is right, they need not be of the same instant.
func (p *Partition) Offsets() Offsets {
	b := p.log.Bounds()
	hw := record.Offset(p.hw.Load())
	start := record.Offset(p.start.Load())
	o := Offsets{
		Start: start, LocalStart: max(b.LocalStart, start),
		Tiered: max(record.Offset(p.tiered.Load()), start),
		Stable: p.stable(hw), HW: hw, End: b.End,
	}
	if !p.cfg.Load().RemoteStorageEnable && o.Tiered == start {
		o.LocalStart = start
	}
	return o
}

// stable is the last stable offset under hw, never below start (H38).
func (p *Partition) stable(hw record.Offset) record.Offset {
	if first, ok := p.log.FirstUndecided(hw); ok && first < hw {
		return max(first, min(record.Offset(p.start.Load()), hw))
	}
	return hw
}

// touch asks the housekeeping to look at the partition at its next round.
func (p *Partition) touch() {
	if !p.changed.Load() {
		p.changed.Store(true)
	}
}
