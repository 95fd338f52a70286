package broker_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker"
	"tidemark/broker/brokertest"
	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/tiering"
	"tidemark/tiering/objstore/file"
)

// readyz waits until the body of /readyz, which is 200, says it, or does not.
func readyz(t *testing.T, n *brokertest.Node, text string, says bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + n.HTTP + "/readyz")
		if err != nil {
			return false
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(string(body), text) == says
	}, time.Minute, 50*time.Millisecond, "%q: %v", text, says)
}

func TestReadyzWarnsOfABucketThatGoesAway(t *testing.T) {
	dir := t.TempDir()
	n := brokertest.Start(t, brokertest.Options{Dir: dir, Env: []string{"TIDEMARK_LOG_LEVEL=error"}})
	readyz(t, n, "warning", false)
	bucket, away := filepath.Join(dir, "objects"), filepath.Join(dir, "away")
	require.NoError(t, os.Rename(bucket, away))
	readyz(t, n, "warning: the bucket has not answered for", true)
	_ = os.RemoveAll(bucket) // what an upload may have made there
	require.NoError(t, os.Rename(away, bucket))
	readyz(t, n, "warning", false)
}

// standing is a catalog with or without a synchronous standby.
type standing struct {
	catalog.Store
	has atomic.Bool
}

func (s *standing) SynchronousStandby(context.Context) (bool, error) { return s.has.Load(), nil }

func TestReadyzWarnsOfACatalogWithoutSynchronousStandby(t *testing.T) {
	var s *standing
	n := brokertest.Start(t, brokertest.Options{WrapCatalog: func(c catalog.Store) catalog.Store {
		s = &standing{Store: c}
		return s
	}})
	const warning = "warning: Postgres has no synchronous standby"
	readyz(t, n, warning, true)
	s.has.Store(true)
	readyz(t, n, warning, false)
}

// A broker that is refused for its bucket has never been a member.
func TestABrokerWithTheWrongBucketDoesNotRegister(t *testing.T) {
	dir := t.TempDir()
	cfg, err := config.Dev(config.DevOptions{DataDir: dir, Kafka: "127.0.0.1:0", HTTP: "none"}, nil)
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "catalog.db"), sqlite.Options{})
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	objects, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: filepath.Join(dir, "objects")})
	require.NoError(t, err)
	defer func() { _ = objects.Close() }()
	other := `{"cluster":"` + catalog.NewUUID().Hex() + `","generation":1}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "objects", "cluster.json"), []byte(other), 0o600))
	_, err = broker.Open(t.Context(), broker.Options{
		Config: cfg, Catalog: store, Objects: objects, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	})
	require.ErrorIs(t, err, tiering.ErrOtherCluster)
	brokers, err := store.Brokers(t.Context())
	require.NoError(t, err)
	require.Empty(t, brokers)
}

// Who does not lead a partition names who does, and does not guess what retention does.
func TestTierStatusNamesTheLeaderWhoDecides(t *testing.T) {
	c := brokertest.StartCluster(t, 2, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 1, map[string]string{"retention.bytes": "1000"})
	leader := int(rows(t, c)[0].Leader)
	readyz(t, c.Node(1), "warning: Postgres has no synchronous standby", true)
	says := func(id int) string {
		resp, err := http.Get("http://" + c.Node(id).HTTP + "/api/v1/tier/t")
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(body)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(says(leader), "no sealed segment is above the log start")
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(says(3-leader), "broker "+string(rune('0'+leader))+" leads it and says what retention removes next: ask its HTTP address (--http), on 127.0.0.1")
	}, time.Minute, 20*time.Millisecond)
}
