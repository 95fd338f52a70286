package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/integration/harness"
)

// H22: a broker starts while the disk of its bucket is not mounted, and finds an empty folder. It writes nothing there, takes
// nothing for lost, serves what is hot, and goes on by itself when the disk is there.
func TestH22_TheBucketsDiskIsMountedLate(t *testing.T) {
	t.Parallel()
	stores := harness.FolderStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "m", 31)
	require.Zero(t, n.Term())
	n.DropCache()
	dir := strings.TrimPrefix(stores.ObjectsURL, "file://")
	require.NoError(t, os.Rename(dir, dir+".disk"))
	require.NoError(t, os.Mkdir(dir, 0o755))

	n.Start()
	produceTens(t, n, "m", 31, 55)
	readTens(t, n, "m", 31, 55)
	harness.Until(t, time.Minute, "cold reads fail, and the broker says why", func() error {
		code, records := fetchCode(t, n, "m", 0, 0)
		require.Zero(t, records)
		if code != kerr.KafkaStorageError.Code || !strings.Contains(n.Log(), "is its disk mounted") {
			return fmt.Errorf("code %d", code)
		}
		return nil
	})
	found, err := filepath.Glob(filepath.Join(dir, "[^.]*")) // but for the driver's own folder
	require.NoError(t, err)
	require.Empty(t, found, "nothing was written into the mount point")

	require.NoError(t, os.Rename(dir, dir+".empty"))
	require.NoError(t, os.Rename(dir+".disk", dir))
	harness.Until(t, time.Minute, "cold reads go on", func() error {
		if code, _ := fetchCode(t, n, "m", 0, 0); code != 0 {
			return kerr.ErrorForCode(code)
		}
		return nil
	})
	readTens(t, n, "m", 0, 55)
	tiered(t, n, "m", 49)
	agree(t, n, stores)
}
