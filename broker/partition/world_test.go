package partition_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker/config"
	"tidemark/broker/dynamic"
	"tidemark/broker/handler"
	"tidemark/broker/metadata"
	"tidemark/broker/partition"
	"tidemark/broker/topicconfig"
	"tidemark/broker/wire"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/replication/fetcher"
	"tidemark/tiering"
	"tidemark/tiering/cache"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
)

// world is a few brokers without controller: the test itself elects, so that each story has exactly the elections
// that it tells of. Brokers speak over TCP; they share a catalog and a bucket.
type world struct {
	*testing.T
	store   catalog.Store
	objects objstore.Store
	boss    catalog.Controller
	topic   catalog.Topic
	nodes   map[catalog.BrokerID]*node
	lagMax  time.Duration // replica.lag.time.max.ms, on the nodes' clocks
}

// node is one broker of a world.
type node struct {
	*world
	id      catalog.BrokerID
	dir     string
	catalog *reach
	data    *hotlog.DataDir
	set     *partition.Set
	lives   []*partition.Set // set and those before it
	pulled  *metadata.Follower
	inc     catalog.Incarnation
	addr    string
	tier    *tiering.Tier
	chunks  *cache.Cache
	stop    context.CancelFunc
	running sync.WaitGroup
	cut     sync.Map // addresses that it cannot reach
	up      bool
	ended   chan error   // of the set's Run
	passed  atomic.Int64 // by how much its clock is ahead, in ns; see lag
	space   space
}

// space is a disk of 1000 MiB of which so many are used.
type space struct{ used atomic.Int64 }

func (s *space) FreeSpace() (free, total int64, err error) {
	return (1000 - s.used.Load()) << 20, 1000 << 20, nil
}
func (s *space) Reserve(int64) error   { return nil }
func (s *space) ReleaseReserve() error { return nil }

// reach is the catalog as one broker reaches it, or does not.
type reach struct {
	catalog.Store
	away atomic.Bool
	deaf atomic.Bool // answers to ISR changes are lost
	// missed are the ISR changes that were asked for while it was away.
	missed atomic.Int64
}

func (r *reach) err() error {
	if r.away.Load() {
		return catalog.MarkUnavailable(net.ErrClosed)
	}
	return nil
}

func (r *reach) Pull(ctx context.Context, since catalog.Position) (catalog.Changes, error) {
	if err := r.err(); err != nil {
		return catalog.Changes{}, err
	}
	return r.Store.Pull(ctx, since)
}

func (r *reach) Partition(ctx context.Context, p catalog.PartitionID) (catalog.Partition, error) {
	if err := r.err(); err != nil {
		return catalog.Partition{}, err
	}
	return r.Store.Partition(ctx, p)
}

func (r *reach) Standings(ctx context.Context, ps []catalog.PartitionID) (map[catalog.PartitionID]catalog.Standing, error) {
	if err := r.err(); err != nil {
		return nil, err
	}
	return r.Store.Standings(ctx, ps)
}

func (r *reach) AlterISR(ctx context.Context, b catalog.BrokerID, inc catalog.Incarnation, es []record.Epoch, cs []catalog.ISRChange) ([]catalog.Partition, error) {
	if err := r.err(); err != nil {
		r.missed.Add(1)
		return nil, err
	}
	rows, err := r.Store.AlterISR(ctx, b, inc, es, cs)
	if r.deaf.Load() {
		return nil, catalog.MarkUnavailable(net.ErrClosed)
	}
	return rows, err
}

// newWorld is a world in which nobody leaves an in-sync set however busy the machine is, unless the test has it so: see lag.
func newWorld(t *testing.T, brokers int) *world {
	t.Helper()
	return newHastyWorld(t, brokers, 10*time.Minute)
}

// newHastyWorld is one in which whoever is slower than lagMax leaves by itself.
func newHastyWorld(t *testing.T, brokers int, lagMax time.Duration) *world {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "catalog.db"), sqlite.Options{})
	require.NoError(t, err)
	objects, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: filepath.Join(dir, "objects")})
	require.NoError(t, err)
	w := &world{T: t, store: store, objects: objects, nodes: map[catalog.BrokerID]*node{}, lagMax: lagMax}
	t.Cleanup(func() {
		for _, n := range w.nodes {
			n.kill()
			for _, set := range n.lives {
				_ = set.Close() // what flushes in the background ends before the folder goes
			}
		}
		require.NoError(t, objects.Close())
		require.NoError(t, store.Close())
	})
	for id := range catalog.BrokerID(brokers) {
		n := &node{world: w, id: id + 1, dir: filepath.Join(dir, fmt.Sprint("broker", id+1)), catalog: &reach{Store: store}}
		w.nodes[n.id] = n
		n.start(0)
	}
	w.takeRole()
	return w
}

// takeRole makes broker 1 the controller, for whom the test decides.
func (w *world) takeRole() {
	leases, err := w.store.Leases(context.Background())
	require.NoError(w, err)
	w.boss, err = w.store.TakeController(context.Background(), 1, w.nodes[1].inc, leases.Controller)
	require.NoError(w, err)
}

// patience is for what happens at once where a machine has time for it.
const patience = time.Minute

// until waits for a condition.
func (w *world) until(cond func() bool, format string, args ...any) {
	w.Helper()
	require.Eventuallyf(w, cond, patience, 2*time.Millisecond, format, args...)
}

// start begins a life of the broker; keep is the incarnation that it keeps, 0 for a new one.
func (n *node) start(keep catalog.Incarnation) {
	n.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n.stop, n.up = cancel, true
	var err error
	n.data, err = hotlog.OpenDataDir(hotlog.DataDirOptions{Path: n.dir})
	require.NoError(n, err)
	server, err := wire.Listen(ctx, wire.Options{Listeners: []wire.ListenerOptions{{Name: "PLAINTEXT", Address: "127.0.0.1:0"}}})
	require.NoError(n, err)
	n.addr = server.Addr("PLAINTEXT").String()
	n.register(keep, int32(server.Addr("PLAINTEXT").(*net.TCPAddr).Port))
	n.openTier(ctx)
	log := slog.New(slog.NewTextHandler(n.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})).With("broker", n.id)
	n.set = partition.NewSet(partition.SetOptions{
		Broker: n.id, Incarnation: n.inc, Kept: keep != 0, Data: n.data, Catalog: n.catalog, Tier: n.tier,
		Refresh: func(ctx context.Context) error { return n.pulled.Refresh(ctx) },
		LagMax:  n.lagMax, InterBroker: "PLAINTEXT", FreeDelay: time.Millisecond,
		Replication:  fetcher.Options{Dial: n.dial, MaxWait: 50 * time.Millisecond},
		MaxProducers: 1000, ProducerExpiry: time.Hour, Log: log,
	})
	n.set.OnDisk(&n.space)
	n.set.OnClock(func() time.Duration { return time.Duration(n.passed.Load()) })
	n.lives = append(n.lives, n.set)
	defaults := topicconfig.Defaults{}
	n.pulled = metadata.NewFollower(n.catalog, &defaults, n.set.Reconcile, log)
	require.NoError(n, n.pulled.Refresh(ctx))
	cluster, err := n.store.Cluster(ctx)
	require.NoError(n, err)
	cfg, err := config.Dev(config.DevOptions{DataDir: n.dir}, nil)
	require.NoError(n, err)
	h := handler.New(handler.Options{
		Broker: n.id, Cluster: cluster, Config: cfg, Defaults: &defaults, Metadata: n.pulled, Partitions: n.set,
		Catalog: n.store, Dynamic: &dynamic.Settings{}, Log: log, Registerer: prometheus.NewRegistry(),
	})
	n.running.Go(func() { _ = server.Run(ctx, h); h.Wait() })
	n.ended = make(chan error, 1)
	n.running.Go(func() { n.ended <- n.set.Run(ctx) })
	n.running.Go(func() { _ = n.pulled.Run(ctx) })
	n.running.Go(func() { _ = n.tier.Run(ctx) })
}

func (n *node) register(keep catalog.Incarnation, port int32) {
	var seen catalog.SeenLease
	brokers, err := n.store.Brokers(context.Background())
	require.NoError(n, err)
	for _, b := range brokers {
		if b.ID == n.id {
			seen = catalog.SeenLease{Incarnation: b.Incarnation, Lease: b.Lease}
		}
	}
	got, err := n.store.Register(context.Background(), catalog.Registration{
		ID: n.id, Rack: fmt.Sprint("rack", n.id), Keep: keep, Seen: seen,
		Listeners: []catalog.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: port}},
	})
	require.NoError(n, err)
	n.inc = got.Incarnation
	if n.boss.Broker == n.id {
		n.takeRole()
	}
}

func (n *node) openTier(ctx context.Context) {
	var err error
	n.chunks, err = cache.Open(cache.Options{Dir: filepath.Join(n.dir, "cache")})
	require.NoError(n, err)
	cluster, err := n.store.Cluster(ctx)
	require.NoError(n, err)
	n.tier, err = tiering.Open(ctx, tiering.Options{
		Store: n.objects, Catalog: n.catalog, Cache: n.chunks, Cluster: cluster.ID, Generation: cluster.Generation,
		RetryMin: 10 * time.Millisecond, RetryMax: 100 * time.Millisecond, Poll: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(n, err)
}

func (n *node) dial(ctx context.Context, addr string) (net.Conn, error) {
	if _, cut := n.cut.Load(addr); cut {
		return nil, fmt.Errorf("cut off from %s", addr)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// kill ends the process: nothing is flushed, given back or marked.
func (n *node) kill() {
	if !n.up {
		return
	}
	n.up = false
	n.stop()
	n.running.Wait()
	_ = n.tier.Close()
	_ = n.chunks.Close()
	require.NoError(n, n.data.Close())
}

// back starts a killed broker again with the incarnation that it had.
func (n *node) back() { n.start(n.inc) }

// reborn starts it with a new one: it may have lost something.
func (n *node) reborn() { n.start(0) }

// create makes the topic with one partition on all brokers, broker 1 leading, and waits until all have joined.
func (w *world) create(configs map[string]string) {
	w.Helper()
	var replicas []catalog.BrokerID
	for id := range catalog.BrokerID(len(w.nodes)) {
		replicas = append(replicas, id+1)
	}
	w.createOn(configs, replicas)
	w.until(func() bool { return len(w.row().ISR) == len(replicas) }, "all are in sync")
}

func (w *world) createOn(configs map[string]string, replicas []catalog.BrokerID) {
	w.Helper()
	all := map[string]string{"retention.ms": "-1"} // the records are of 1970
	maps.Copy(all, configs)
	var err error
	w.topic, err = w.store.CreateTopic(w.Context(), catalog.NewTopic{
		ID: catalog.NewUUID(), Name: "t", Configs: all,
		Place: func([]catalog.Broker) ([][]catalog.BrokerID, error) { return [][]catalog.BrokerID{replicas}, nil },
	})
	require.NoError(w, err)
	w.pull()
	w.until(func() bool { return w.nodes[replicas[0]].part().LeaderEpoch() == w.row().LeaderEpoch }, "broker %d leads", replicas[0])
}

// pull makes all brokers know what the catalog says.
func (w *world) pull() {
	w.Helper()
	for _, n := range w.nodes {
		if n.up && !n.catalog.away.Load() {
			require.NoError(w, n.pulled.Refresh(context.Background()))
		}
	}
}

func (w *world) id() catalog.PartitionID { return catalog.PartitionID{Topic: w.topic.ID} }

func (w *world) row() catalog.Partition {
	w.Helper()
	row, err := w.store.Partition(context.Background(), w.id())
	require.NoError(w, err)
	return row
}

// topicVersion is the version of the topic's row.
func (w *world) topicVersion() catalog.Version {
	w.Helper()
	ch, err := w.store.Pull(context.Background(), catalog.Position{})
	require.NoError(w, err)
	return ch.Topics[0].Version
}

func (n *node) member() catalog.Member { return catalog.Member{Broker: n.id, Incarnation: n.inc} }

// elect makes leader lead with the in-sync set that is named; whatever the row says.
func (w *world) elect(leader catalog.BrokerID, isr ...catalog.BrokerID) {
	w.Helper()
	w.electOnly(leader, isr...)
	w.pull()
	w.until(func() bool { return w.nodes[leader].part().LeaderEpoch() == w.row().LeaderEpoch }, "broker %d leads", leader)
}

func (w *world) electOnly(leader catalog.BrokerID, isr ...catalog.BrokerID) {
	w.Helper()
	e := catalog.Election{ID: w.id(), Leader: leader}
	for _, b := range isr {
		e.ISR = append(e.ISR, w.nodes[b].member())
	}
	w.until(func() bool {
		e.IfVersion = w.row().Version
		rows, err := w.store.Elect(context.Background(), w.boss, []catalog.Election{e})
		require.NoError(w, err)
		return len(rows) == 1
	}, "broker %d is elected", leader)
}

func (n *node) part() *partition.Partition {
	n.Helper()
	p, err := n.set.Get(n.id2())
	require.NoError(n, err)
	return p
}

func (n *node) id2() catalog.PartitionID { return n.world.id() }

// end is the log's end on the broker.
func (n *node) end() record.Offset { return n.part().Offsets().End }

func (n *node) hw() record.Offset { return n.part().Offsets().HW }

// settled waits until all running brokers have the whole log and know that it is committed.
func (w *world) settled() {
	w.Helper()
	w.until(func() bool {
		lead := w.nodes[w.row().Leader]
		for _, n := range w.nodes {
			if n.up && (n.end() != lead.end() || n.hw() != lead.end()) {
				return false
			}
		}
		return true
	}, "all have everything")
}

// lag has so much time pass on the leader's clock that whoever lacks the end of its log lags. Those are the ones that are
// named: the others have it, as the leader knows, before the time passes.
func (n *node) lag(behind ...catalog.BrokerID) {
	n.Helper()
	n.until(func() bool {
		for _, m := range n.row().ISR {
			if has := m.Broker == n.id || n.part().ReplicaEnd(m.Broker) == n.end(); has == slices.Contains(behind, m.Broker) {
				return false
			}
		}
		return true
	}, "of the in-sync set, %v lack the end", behind)
	n.passed.Add(int64(n.lagMax + time.Minute))
}

// takesOut has those that are named lag until the leader knows that they have left the in-sync set, and has heard of the
// others since.
func (n *node) takesOut(behind ...catalog.BrokerID) {
	n.Helper()
	n.lag(behind...)
	n.until(func() bool {
		return n.part().Steady() && !slices.ContainsFunc(n.row().ISR, func(m catalog.Member) bool { return slices.Contains(behind, m.Broker) })
	}, "%v are taken out after replica.lag.time.max.ms", behind)
}

// bytesOf is the local log as it lies on the disk.
func (n *node) bytesOf() []byte {
	n.Helper()
	files, err := filepath.Glob(filepath.Join(n.data.Path(n.topic.ID, 0), "*.log"))
	require.NoError(n, err)
	slices.Sort(files)
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(n, err)
		all = append(all, b...)
	}
	return all
}

// sameLogs demands byte-equal logs of all running brokers.
func (w *world) sameLogs() {
	w.Helper()
	w.settled()
	var first []byte
	for _, n := range w.nodes {
		if !n.up {
			continue
		}
		if first == nil {
			first = n.bytesOf()
		}
		got := n.bytesOf()
		require.True(w, bytes.Equal(first, got), "the log of broker %d is another: %d and %d bytes", n.id, len(first), len(got))
	}
}
