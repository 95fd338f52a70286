package brokertest

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker"
	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/hotlog"
	"tidemark/integration/pgproxy"
	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/file"
)

// Node is a running broker.
type Node struct {
	*broker.Broker
	Addr    string // of the Kafka listener
	HTTP    string
	Dir     string
	Catalog catalog.Store
	Objects objstore.Store
	Metrics *prometheus.Registry
	// PG is the way to Postgres of a cluster's broker; nil where the catalog is SQLite.
	PG *pgproxy.Proxy

	t       testing.TB
	cancel  context.CancelFunc
	ended   chan error
	stopped atomic.Bool
}

// Options change what Start does.
type Options struct {
	// Dir is the data folder; "" makes a new one. Give a stopped node's to restart it.
	Dir string
	// Env adds TIDEMARK_… variables, as NAME=value.
	Env []string
	// WrapObjects and WrapCatalog put faults between the broker and its stores.
	WrapObjects func(objstore.Store) objstore.Store
	WrapCatalog func(catalog.Store) catalog.Store
	// Patience is broker.Options'; nil: a minute's. Brokers of a cluster have their own.
	Patience *catalog.Patience
	// Disk puts faults under the logs, or another machine around them.
	Disk hotlog.DataDirOptions
}

// Start runs a broker and stops it when the test ends.
func Start(t testing.TB, o Options) *Node {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	environ := append([]string{"TIDEMARK_FREE_DELAY=100ms", "TIDEMARK_LOG_LEVEL=warn"}, o.Env...)
	cfg, err := config.Dev(config.DevOptions{DataDir: o.Dir, Kafka: "127.0.0.1:0", HTTP: "127.0.0.1:0"}, environ)
	require.NoError(t, err)
	if o.Patience == nil {
		o.Patience = patience(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := sqlite.Open(ctx, cfg.Stores.Catalog.URL().Path, sqlite.Options{})
	require.NoError(t, err)
	n := &Node{t: t, Dir: o.Dir, Catalog: store}
	require.NoError(t, n.start(ctx, cfg, store, filepath.Join(o.Dir, "objects"), o))
	return n
}

// patience is for a test machine that is shared: a call to the catalog may fail.
func patience(t testing.TB) *catalog.Patience {
	return catalog.NewPatience(time.Minute, slog.New(slog.NewTextHandler(t.Output(), nil)), func(error) string { return "none" })
}

// start opens and runs the node on a store, which it closes when it ends.
func (n *Node) start(ctx context.Context, cfg config.Config, store catalog.Store, objectsDir string, o Options) error {
	n.Metrics, n.ended = prometheus.NewRegistry(), make(chan error, 1)
	if o.WrapCatalog != nil {
		n.Catalog = o.WrapCatalog(store)
	}
	objects, err := file.Open(ctx, &url.URL{Scheme: "file", Path: objectsDir})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	n.Objects = objects
	if o.WrapObjects != nil {
		n.Objects = o.WrapObjects(objects)
	}
	log := slog.New(slog.NewTextHandler(n.t.Output(), &slog.HandlerOptions{Level: cfg.Log.Level})).With("broker", cfg.Broker.ID)
	n.Broker, err = broker.Open(ctx, broker.Options{
		Config: cfg, Catalog: n.Catalog, Objects: n.Objects, Patience: o.Patience, Log: log, Registry: n.Metrics, Disk: o.Disk,
	})
	if err != nil {
		return errors.Join(err, store.Close(), objects.Close())
	}
	n.Addr, n.HTTP = n.Broker.Addr("PLAINTEXT"), n.Broker.HTTPAddr()
	run, stop := context.WithCancel(context.Background())
	n.cancel = stop
	n.stopped.Store(false)
	b := n.Broker
	go func() {
		err := b.Run(run)
		n.ended <- errors.Join(err, b.Close(), objects.Close(), store.Close())
	}()
	n.t.Cleanup(func() { require.NoError(n.t, n.Stop()) })
	return nil
}

// Stop ends the broker cleanly and returns what its run returned. More calls do nothing.
func (n *Node) Stop() error {
	if n.stopped.Load() {
		return nil
	}
	n.cancel()
	return n.Ended()
}

// Ended waits for a broker that ends, and returns what its run returned.
func (n *Node) Ended() error {
	n.stopped.Store(true)
	select {
	case err := <-n.ended:
		return err
	case <-time.After(time.Minute):
		return errors.New("the broker did not stop within a minute")
	}
}
