package brokertest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/postgres"
	"tidemark/integration/pgproxy"
	"tidemark/internal/testenv"
)

// Cluster is brokers 1 to n on one Postgres and one folder of objects.
type Cluster struct {
	// Nodes holds broker i at i-1, stopped ones too.
	Nodes []*Node
	// Catalog reaches Postgres past every broker's proxy.
	Catalog catalog.Store

	t    testing.TB
	dsn  string
	dir  string
	opts Options
}

// StartCluster runs n brokers that start at the same time, each with a way of its own to Postgres
// ([Node.PG]); rack i is "rack-<i>". Of o, Env and the wrappers apply to every node.
func StartCluster(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, dsn: testenv.Postgres(t), dir: t.TempDir(), opts: o}
	store, err := postgres.Open(t.Context(), c.dsn, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	c.Catalog = store
	errs := make(chan error, n)
	for i := range n {
		c.Nodes = append(c.Nodes, &Node{t: t, Dir: filepath.Join(c.dir, fmt.Sprint(i+1))})
		c.Nodes[i].PG = c.proxy()
	}
	for id := 1; id <= n; id++ {
		go func() { errs <- c.open(id) }()
	}
	for range n {
		require.NoError(t, <-errs)
	}
	return c
}

func (c *Cluster) proxy() *pgproxy.Proxy {
	c.t.Helper()
	u, err := url.Parse(c.dsn)
	require.NoError(c.t, err)
	host, port := u.Hostname(), u.Port()
	if q := u.Query(); q.Get("host") != "" {
		host, port = q.Get("host"), q.Get("port")
	}
	return pgproxy.Start(c.t, net.JoinHostPort(host, port))
}

// DSN reaches the cluster's database past every proxy.
func (c *Cluster) DSN() string { return c.dsn }

// Node is broker id.
func (c *Cluster) Node(id int) *Node { return c.Nodes[id-1] }

// Live lists the nodes that run.
func (c *Cluster) Live() []*Node {
	var out []*Node
	for _, n := range c.Nodes {
		if !n.stopped.Load() {
			out = append(out, n)
		}
	}
	return out
}

// Restart runs a stopped or killed broker again on its data folder.
func (c *Cluster) Restart(id int) *Node {
	c.t.Helper()
	require.True(c.t, c.Node(id).stopped.Load(), "broker %d runs", id)
	require.NoError(c.t, c.open(id))
	return c.Node(id)
}

// Wipe deletes the data folder of a stopped broker.
func (c *Cluster) Wipe(id int) {
	c.t.Helper()
	require.NoError(c.t, os.RemoveAll(c.Node(id).Dir))
}

func (c *Cluster) open(id int) error {
	n := c.Node(id)
	environ := append([]string{
		fmt.Sprintf("TIDEMARK_BROKER_ID=%d", id), fmt.Sprintf("TIDEMARK_RACK=rack-%d", id),
		"TIDEMARK_DATA_DIR=" + n.Dir, "TIDEMARK_LISTENERS=PLAINTEXT://127.0.0.1:0", "TIDEMARK_HTTP_LISTEN=127.0.0.1:0",
		"TIDEMARK_CATALOG_URL=" + n.PG.Through(c.t, c.dsn), "TIDEMARK_OBJECT_STORE_URL=file://" + filepath.Join(c.dir, "objects"),
		"TIDEMARK_FREE_DELAY=100ms", "TIDEMARK_LOG_LEVEL=warn",
	}, c.opts.Env...)
	cfg, err := config.Load(environ)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o := c.opts
	o.Patience = patience(c.t)
	var store *postgres.Store
	err = o.Patience.Await(ctx, func(ctx context.Context) (err error) {
		store, err = postgres.Open(ctx, cfg.Stores.Catalog.Reveal(), postgres.Options{CallTimeout: 3 * time.Second})
		return err
	})
	if err != nil {
		return err
	}
	n.Catalog = store
	if err := n.start(ctx, cfg, store, filepath.Join(c.dir, "objects"), o); err != nil {
		return fmt.Errorf("broker %d: %w", id, err)
	}
	return nil
}

// Kill ends a broker as a killed process ends: nobody is told, and no answer goes out any more. What it
// had written stays written.
func (n *Node) Kill() {
	n.t.Helper()
	_ = n.Catalog.Close()
	_ = n.Stop() // it cannot hand over, and says so
}
