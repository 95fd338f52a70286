package cleaning

import (
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tidemark/broker/config"
)

// A compactor begins with the cluster's own bucket alone. An empty one is the wrong one as soon as the catalog names objects:
// nothing is written to it, so that brokers, too, still take it for that.
func TestH22_ACompactorClaimsNoEmptyBucketOfACatalogWithObjects(t *testing.T) {
	i := story(t)
	open := func() error {
		c, err := Open(t.Context(), Options{
			Config: config.Config{}, Catalog: i.cat, Objects: i.disk, CacheDir: filepath.Join(t.TempDir(), "cache"),
			Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Registry: prometheus.NewRegistry(),
		})
		if err == nil {
			require.NoError(t, c.Close())
		}
		return err
	}
	require.NoError(t, open(), "a cluster without objects")
	i.object("a=1", "b=1")
	require.NoError(t, open(), "its own bucket")

	own := maps.Clone(i.disk.objects)
	clear(i.disk.objects)
	require.ErrorIs(t, open(), errBucket)
	require.Empty(t, i.disk.objects)
	maps.Copy(i.disk.objects, own)
	require.NoError(t, open())
}
