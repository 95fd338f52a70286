// Package brokertest runs a whole broker inside a test: SQLite, objects in a folder, free ports.
//
// Place in the house: for tests of broker's rooms. What must be killed, or needs Postgres and S3, runs as
// a process in integration instead.
package brokertest

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker"
	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
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

	t       testing.TB
	cancel  context.CancelFunc
	ended   chan error
	stopped bool
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
	n := &Node{t: t, Dir: o.Dir, Metrics: prometheus.NewRegistry(), ended: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	store, err := sqlite.Open(ctx, cfg.Stores.Catalog.URL().Path, sqlite.Options{})
	require.NoError(t, err)
	n.Catalog = store
	if o.WrapCatalog != nil {
		n.Catalog = o.WrapCatalog(store)
	}
	objects, err := file.Open(ctx, &url.URL{Scheme: "file", Path: filepath.Join(o.Dir, "objects")})
	require.NoError(t, err)
	n.Objects = objects
	if o.WrapObjects != nil {
		n.Objects = o.WrapObjects(objects)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: cfg.Log.Level}))
	n.Broker, err = broker.Open(ctx, broker.Options{Config: cfg, Catalog: n.Catalog, Objects: n.Objects, Log: log, Registry: n.Metrics})
	if err != nil {
		require.NoError(t, errors.Join(err, store.Close(), objects.Close()))
	}
	n.Addr, n.HTTP = n.Broker.Addr("PLAINTEXT"), n.Broker.HTTPAddr()
	run, stop := context.WithCancel(context.Background())
	n.cancel = stop
	go func() {
		err := n.Run(run)
		n.ended <- errors.Join(err, n.Close(), objects.Close(), store.Close())
	}()
	t.Cleanup(func() { require.NoError(t, n.Stop()) })
	return n
}

// Stop ends the broker cleanly and returns what its run returned. More calls do nothing.
func (n *Node) Stop() error {
	if n.stopped {
		return nil
	}
	n.stopped = true
	n.cancel()
	select {
	case err := <-n.ended:
		return err
	case <-time.After(20 * time.Second):
		return errors.New("the broker did not stop within 20 s")
	}
}
