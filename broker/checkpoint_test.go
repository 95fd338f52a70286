package broker

import (
	"log/slog"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker/config"
	"tidemark/catalog"
	"tidemark/catalog/sqlite"
	"tidemark/tiering/objstore/file"
)

func TestH21_NoBrokerStartsOnACatalogThatIsNotWhole(t *testing.T) {
	dir := t.TempDir()
	cfg, err := config.Dev(config.DevOptions{DataDir: dir, Kafka: "127.0.0.1:0", HTTP: "127.0.0.1:0"}, nil)
	require.NoError(t, err)
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "catalog.db"), sqlite.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	objects, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: filepath.Join(dir, "objects")})
	require.NoError(t, err)
	_, err = store.BeginRestore(t.Context(), catalog.ClusterRow{ID: catalog.NewUUID(), Generation: 2}, 10)
	require.NoError(t, err)
	open := func() error {
		b, err := Open(t.Context(), Options{Config: cfg, Catalog: store, Objects: objects, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()})
		if err == nil {
			require.NoError(t, b.Close())
		}
		return err
	}
	require.ErrorIs(t, open(), errIncomplete)
	require.NoError(t, store.EndRestore(t.Context()))
	require.NoError(t, open())
}
