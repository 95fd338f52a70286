package handler

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"tidemark/broker/config"
	"tidemark/broker/dynamic"
	"tidemark/broker/group"
	"tidemark/broker/metadata"
	"tidemark/broker/pace"
	"tidemark/broker/partition"
	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// Catalog is what handlers change in the catalog directly; everything else goes through a partition
// or the group coordinator.
type Catalog interface {
	catalog.Topics
	catalog.Clusters
	// Move is catalog.Replicas', SetLeaving catalog.Brokers'.
	Move(ctx context.Context, ms []catalog.Move) ([]error, error)
	SetLeaving(ctx context.Context, id catalog.BrokerID, leaving bool) error
}

// Options are the parts of the broker that requests reach.
type Options struct {
	Broker     catalog.BrokerID
	Cluster    catalog.ClusterRow
	Config     config.Config
	Defaults   *topicconfig.Defaults
	Metadata   *metadata.Follower
	Controller Controller
	Partitions *partition.Set
	Groups     *group.Coordinator
	Catalog    Catalog
	Dynamic    *dynamic.Settings
	// Traffic is told of produce requests, ColdPace is asked before cold data is sent; nil: neither.
	Traffic    *pace.Traffic
	ColdPace   *pace.Pace
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Controller is what administrators ask of the cluster's controller.
type Controller interface {
	// ID is the controller as far as this broker knows, or catalog.NoBroker.
	ID() catalog.BrokerID
	// Elect gives partitions to their preferred replicas or, where loss is accepted and nobody leads, to
	// any live one. errs has one entry per partition: nil, ErrElectionNotNeeded, ErrNotElected,
	// ErrPreferredNotElected, catalog.ErrUnknownTopic. ErrNotController if another broker has to be asked.
	Elect(ctx context.Context, ids []catalog.PartitionID, acceptLoss bool) (errs []error, err error)
}

var (
	// ErrNotController: another broker is the controller.
	ErrNotController = errors.New("this broker is not the controller")
	// ErrElectionNotNeeded: the partition is led as it should be.
	ErrElectionNotNeeded = errors.New("no election is needed")
	// ErrNotElected: no replica that may lead is live.
	ErrNotElected = errors.New("no replica that may lead is available")
	// ErrPreferredNotElected: the first of the replicas is not live or not in sync; who leads goes on.
	ErrPreferredNotElected = errors.New("the preferred replica is not live or not in sync")
)

// Handlers answers requests; it is a wire.Handler.
type Handlers struct {
	Options
	metrics  *metrics
	sessions *sessions
	ids      producerIDs

	waits sync.WaitGroup // goroutines started by later, and produce requests that wait for acknowledgements
}

// New returns the handlers.
func New(o Options) *Handlers {
	m := newMetrics(o.Registerer)
	return &Handlers{Options: o, metrics: m, sessions: newSessions(o.Config.Network.FetchSessions, o.Config.Network.FetchPartitions, m.fetchParts)}
}

// Wait returns when no request is waiting any more. Requests end with their connection's context.
func (h *Handlers) Wait() { h.waits.Wait() }

// Supports implements wire.Handler.
func (h *Handlers) Supports(key, version int16) bool {
	a := lookup(key)
	return a != nil && version >= a.min && version <= a.max
}

// Handle implements wire.Handler.
func (h *Handlers) Handle(ctx context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	return lookup(req.Key).begin(h, ctx, c, req)
}

// Refuse implements wire.Handler.
func (h *Handlers) Refuse(c *wire.Conn, req *wire.Request) wire.Reply {
	switch {
	case req.Key == keyAPIVersions:
		return refuseAPIVersions()
	case req.Key == keyProduce && req.Body != nil:
		return refuseProduce(req)
	}
	return wire.Unsupported(req)
}

// later runs wait on a goroutine and sends what it returns. wait must end soon after ctx does. A panic
// closes the connection, as one on the connection's own goroutine does.
func (h *Handlers) later(wait func() wire.Reply) wire.Reply {
	p := wire.NewPending()
	h.waits.Go(func() {
		defer func() {
			if r := recover(); r != nil {
				h.metrics.panics.Inc()
				h.Log.Error("a request that waited panicked", "panic", r, "stack", string(debug.Stack()))
				p.Resolve(wire.CloseConn("panic"))
			}
		}()
		p.Resolve(wait())
	})
	return wire.Later(p)
}
