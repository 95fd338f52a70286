package handler

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"tidemark/broker/config"
	"tidemark/broker/dynamic"
	"tidemark/broker/group"
	"tidemark/broker/metadata"
	"tidemark/broker/partition"
	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/integration/rawclient"
	"tidemark/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is the handlers behind a real listener, over a real catalog, of one broker without partitions on
// disk: what administrators and consumer groups need.
type house struct {
	t        *testing.T
	store    *frozen
	follower *metadata.Follower
	handlers *Handlers
	addr     string
	registry *prometheus.Registry
	logged   testenv.Lines
}

// frozen is a catalog that can be made to not answer.
type frozen struct {
	catalog.Store
	mu   sync.Mutex
	away bool
	deaf int // so many changes are done, and their answers lost
}

// lose makes the answers to the next n changes get lost.
func (f *frozen) lose(n int) {
	f.mu.Lock()
	f.deaf = n
	f.mu.Unlock()
}

// answered is the outcome of a change as its caller learns it.
func (f *frozen) answered(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deaf > 0 {
		f.deaf--
		return catalog.MarkUnavailable(net.ErrClosed)
	}
	return err
}

func (f *frozen) freeze(away bool) {
	f.mu.Lock()
	f.away = away
	f.mu.Unlock()
}

func (f *frozen) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return catalog.MarkUnavailable(net.ErrClosed)
	}
	return nil
}

func (f *frozen) CreateTopic(ctx context.Context, t catalog.NewTopic) (catalog.Topic, error) {
	if err := f.fault(); err != nil {
		return catalog.Topic{}, err
	}
	topic, err := f.Store.CreateTopic(ctx, t)
	return topic, f.answered(err)
}

func (f *frozen) AddPartitions(ctx context.Context, id catalog.TopicID, total int, place func([]catalog.Broker) ([][]catalog.BrokerID, error)) error {
	return f.answered(f.Store.AddPartitions(ctx, id, total, place))
}

func (f *frozen) DeleteTopic(ctx context.Context, id catalog.TopicID) error {
	return f.answered(f.Store.DeleteTopic(ctx, id))
}

func (f *frozen) AlterConfigs(ctx context.Context, id catalog.TopicID, changes []catalog.ConfigChange, replace bool) error {
	return f.answered(f.Store.AlterConfigs(ctx, id, changes, replace))
}

func (f *frozen) Pull(ctx context.Context, since catalog.Position) (catalog.Changes, error) {
	if err := f.fault(); err != nil {
		return catalog.Changes{}, err
	}
	return f.Store.Pull(ctx, since)
}

func (f *frozen) CommitOffsets(ctx context.Context, ws []catalog.OffsetWrite) ([]error, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	return f.Store.CommitOffsets(ctx, ws)
}

// topicNames is a group.Topics over the newest image.
type topicNames struct{ f *metadata.Follower }

func (n topicNames) TopicID(name string) (catalog.TopicID, bool) {
	if t, ok := n.f.Image().Topic(name); ok {
		return t.ID, true
	}
	return catalog.TopicID{}, false
}

func (n topicNames) TopicName(id catalog.TopicID) (string, bool) {
	if t, ok := n.f.Image().TopicByID(id); ok {
		return t.Name, true
	}
	return "", false
}

// build starts a house whose settings are dev's, with the given variables over them.
func build(t *testing.T, environ ...string) *house {
	t.Helper()
	ctx := t.Context()
	cfg, err := config.Dev(config.DevOptions{DataDir: t.TempDir()}, environ)
	require.NoError(t, err)
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "catalog.db"), sqlite.Options{})
	require.NoError(t, err)
	h := &house{t: t, store: &frozen{Store: store}, registry: prometheus.NewRegistry()}

	server, err := wire.Listen(ctx, wire.Options{Metrics: wire.NewMetrics(h.registry), Listeners: []wire.ListenerOptions{
		{Name: "PLAINTEXT", Address: "127.0.0.1:0"}, {Name: "INSIDE", Address: "127.0.0.1:0"},
	}})
	require.NoError(t, err)
	h.addr = server.Addr("PLAINTEXT").String()
	port := int32(server.Addr("PLAINTEXT").(*net.TCPAddr).Port)
	reg, err := store.Register(ctx, catalog.Registration{ID: 1, Rack: "r1", Listeners: []catalog.Listener{
		{Name: "PLAINTEXT", Host: "outside.example", Port: port}, {Name: "INSIDE", Host: "inside.example", Port: 7},
	}})
	require.NoError(t, err)
	term, err := store.TakeController(ctx, 1, reg.Incarnation, catalog.Controller{})
	require.NoError(t, err)
	slots, err := store.AssignSlots(ctx, term, allSlots())
	require.NoError(t, err)

	log := slog.New(slog.NewTextHandler(&h.logged, nil))
	defaults := topicconfig.Defaults{}
	h.follower = metadata.NewFollower(h.store, &defaults, func(context.Context, *metadata.Image) {}, log)
	require.NoError(t, h.follower.Refresh(ctx))
	groups, err := group.New(group.Options{
		Offsets: h.store, Topics: topicNames{h.follower}, Log: log, Group: quick(),
		Guard: func(name string) (catalog.SlotGuard, bool) { return slots[group.SlotOf(name)], true },
	})
	require.NoError(t, err)
	cluster, err := store.Cluster(ctx)
	require.NoError(t, err)
	settings, err := dynamic.Open(&storedSettings{})
	require.NoError(t, err)
	h.handlers = New(Options{
		Broker: 1, Cluster: cluster, Config: cfg, Defaults: &defaults, Metadata: h.follower, Groups: groups,
		Partitions: partition.NewSet(partition.SetOptions{Broker: 1, Log: log, Registerer: h.registry}),
		Controller: elections{}, Catalog: h.store, Dynamic: settings, Log: log, Registerer: h.registry,
	})
	h.serve(server, groups)
	return h
}

// serve runs the parts until the test ends.
func (h *house) serve(server *wire.Server, groups *group.Coordinator) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx, h.handlers) })
	running.Go(func() { _ = groups.Run(ctx) })
	h.t.Cleanup(func() {
		cancel()
		running.Wait()
		h.handlers.Wait()
		require.NoError(h.t, h.store.Close())
	})
}

func quick() group.Config {
	c := group.DefaultConfig()
	c.InitialRebalanceDelay = 0
	c.MinSessionTimeout = 100 * time.Millisecond
	return c
}

func allSlots() []catalog.SlotMove {
	out := make([]catalog.SlotMove, catalog.Slots)
	for i := range out {
		out[i] = catalog.SlotMove{Slot: int32(i), To: 1}
	}
	return out
}

// client connects to the house.
func (h *house) client() *rawclient.Client {
	h.t.Helper()
	c, err := rawclient.Dial(h.t.Context(), h.addr)
	require.NoError(h.t, err)
	c.Timeout = time.Minute
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends one request at a version, on a connection of its own, and returns the answer.
func ask[R kmsg.Response](h *house, version int16, req kmsg.Request) R {
	h.t.Helper()
	return askOn[R](h, h.client(), version, req)
}

// askOn is ask on a connection that is there.
func askOn[R kmsg.Response](h *house, c *rawclient.Client, version int16, req kmsg.Request) R {
	h.t.Helper()
	req.SetVersion(version)
	_, err := c.Send(req)
	require.NoError(h.t, err)
	resp, err := c.Recv()
	require.NoError(h.t, err)
	return resp.(R)
}

// create makes topics of n partitions each.
func (h *house) create(n int32, names ...string) {
	h.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range names {
		req.Topics = append(req.Topics, newTopic(name, n))
	}
	for _, topic := range ask[*kmsg.CreateTopicsResponse](h, 7, req).Topics {
		require.Zero(h.t, topic.ErrorCode, "%s: %v", topic.Topic, topic.ErrorMessage)
	}
}

func newTopic(name string, partitions int32) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, -1
	return topic
}

// elections is a Controller that finds every partition led as it should be.
type elections struct{}

func (elections) ID() catalog.BrokerID { return 1 }

func (elections) Elect(_ context.Context, ids []catalog.PartitionID, _ bool) ([]error, error) {
	errs := make([]error, len(ids))
	for i := range errs {
		errs[i] = ErrElectionNotNeeded
	}
	return errs, nil
}
