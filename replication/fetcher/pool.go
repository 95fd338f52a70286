package fetcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/replication"
)

var (
	// ErrStale: the replica does not follow that leader's epoch any more. Nothing was changed.
	ErrStale = errors.New("the replica follows another leader epoch")
	// ErrDiverged: the leader's batches do not continue the log: it has to be cut again.
	ErrDiverged = errors.New("the leader's batches do not continue the log")
	// ErrRestart: the log cannot be used as it is and has to begin at the tier's end.
	ErrRestart = errors.New("the log has to begin at the tier's end")
)

// Replica is one partition's log under one leader epoch of another broker. Its methods are called by one
// goroutine at a time; each returns ErrStale, and changes nothing, once the epoch is not followed any more.
type Replica interface {
	// Log is the state of the log now. restart asks for Restart before anything else.
	Log() (l Log, restart bool)
	// Truncate cuts the log at to, at most its end; it then agrees with the leader's. ErrRestart if that lies
	// below what is on this disk.
	Truncate(to record.Offset) error
	// Restart drops the log and begins at `tiered` with the tier's state. It reads catalog and bucket.
	Restart(ctx context.Context) error
	// Append takes whole batches that follow the log's end, none or more, and what the leader says of its high
	// watermark and start. The bytes are the caller's again when it returns. ErrDiverged.
	Append(batches []byte, hw, start record.Offset) error
}

// Log is what a follower tells its leader.
type Log struct {
	Start, End record.Offset // on this disk
	Epochs     record.EpochHistory
}

// Assignment is one partition to follow. Replica is another value for each epoch.
type Assignment struct {
	ID      catalog.PartitionID
	Topic   string
	Epoch   record.Epoch
	Replica Replica
	// CatchingUp: the replica is not in sync, so nobody waits for it; Options.CatchUp bounds what it copies.
	CatchingUp bool
	// FollowerThrottled and LeaderThrottled: while it is catching up Options.Throttle bounds what it copies, and the
	// pauses that its leader asks for.
	FollowerThrottled, LeaderThrottled bool
}

// Target is one leader: where it listens, and what it leads of ours.
type Target struct {
	Addr  string
	Parts []Assignment
}

// Options of a Pool.
type Options struct {
	// Self is what fetches carry.
	Self catalog.Member
	// Dial connects to a broker; nil: TCP within a second.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// MaxWait is how long a leader may wait for news (250 ms).
	MaxWait time.Duration
	// MaxBytes bounds an answer (8 MiB), PartitionBytes one partition's share of it (1 MiB); one whole batch
	// may be larger.
	MaxBytes, PartitionBytes int
	// CatchUp is how many bytes a second all replicas that are not in sync copy together; 0: no limit.
	CatchUp int64
	// Throttle bounds what the throttled ones among them copy; nil: nothing does.
	Throttle   *replication.Throttle
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	if o.Dial == nil {
		d := net.Dialer{Timeout: time.Second}
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if o.MaxWait == 0 {
		o.MaxWait = 250 * time.Millisecond
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 8 << 20
	}
	if o.PartitionBytes == 0 {
		o.PartitionBytes = 1 << 20
	}
	if o.Throttle == nil {
		o.Throttle = &replication.Throttle{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pool is the fetchers of one broker, one for each leader.
type Pool struct {
	o       Options
	metrics *metrics
	catchUp replication.Throttle

	mu       sync.Mutex // guards what follows; a leaf
	ctx      context.Context
	fetchers map[catalog.BrokerID]*fetcher
	running  sync.WaitGroup
}

// New returns a pool that follows nothing.
func New(o Options) *Pool {
	p := &Pool{o: o.withDefaults(), metrics: newMetrics(o.Registerer), fetchers: map[catalog.BrokerID]*fetcher{}}
	p.catchUp.SetRate(o.CatchUp, time.Now())
	return p
}

// Connect opens a connection to a broker, for one who wants to tell it something.
func (p *Pool) Connect(ctx context.Context, addr string) (*Conn, error) {
	nc, err := p.o.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return NewConn(nc, fmt.Sprintf("tidemark-replica-%d", p.o.Self.Broker), 2*p.o.MaxBytes), nil
}

// Assign says, completely, whom to follow in what from now on. What stays as it was goes on undisturbed.
func (p *Pool) Assign(targets map[catalog.BrokerID]Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, t := range targets {
		if len(t.Parts) == 0 || p.fetchers[id] != nil {
			continue
		}
		f := newFetcher(p, id)
		p.fetchers[id] = f
		p.startLocked(f)
	}
	for id, f := range p.fetchers {
		f.assign(targets[id])
	}
}

func (p *Pool) startLocked(f *fetcher) {
	if p.ctx == nil || p.ctx.Err() != nil {
		return // Run starts it
	}
	ctx := p.ctx
	p.running.Go(func() { f.run(ctx) })
}

// Run fetches until ctx ends.
func (p *Pool) Run(ctx context.Context) error {
	p.mu.Lock()
	p.ctx = ctx
	for _, f := range p.fetchers {
		p.startLocked(f)
	}
	p.mu.Unlock()
	<-ctx.Done()
	p.mu.Lock()
	p.ctx = nil // nobody starts one from here on
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

// metrics counts what followers do.
type metrics struct {
	bytes, fetches, failures, truncations, restarts prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		bytes:       counter("tidemark_replication_fetched_bytes_total", "Bytes of batches that this broker has copied from leaders."),
		fetches:     counter("tidemark_replication_fetches_total", "Fetches that leaders have answered."),
		failures:    counter("tidemark_replication_connection_failures_total", "Connections to leaders that could not be made or broke."),
		truncations: counter("tidemark_replication_truncations_total", "Local logs that were cut because a new leader's differs."),
		restarts:    counter("tidemark_replication_restarts_total", "Local logs that began at the object tier's end, because the leader does not have what lies below."),
	}
	if reg != nil {
		reg.MustRegister(m.bytes, m.fetches, m.failures, m.truncations, m.restarts)
	}
	return m
}
