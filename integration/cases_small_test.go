package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
)

// P16: dev, with its database, its cache and the clients of two kinds of bucket in the binary, is at most 60 MB when it has
// nothing to do.
func TestP16_AnIdleDevIsSmall(t *testing.T) {
	n := harness.Dev(t, harness.Options{})
	tens(t, n, "small", 1)
	produceTens(t, n, "small", 0, 30)
	readTens(t, n, "small", 0, 30)
	harness.Until(t, time.Minute, "it is at rest", func() error {
		if got := n.Metric("process_resident_memory_bytes"); got > 60e6 && !harness.RaceDetector {
			return fmt.Errorf("%.0f MB are resident", got/1e6)
		}
		return nil
	})
}

// P4: no file of the data folder is mapped into memory, where a page fault would hold up a processor and a file that is cut
// would end the process.
func TestP4_NothingIsMapped(t *testing.T) {
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "mapped", 41)
	eachOffset(t, n, "mapped", 41) // logs, indexes and chunks have been read
	folder, err := filepath.EvalSymlinks(n.Dir)
	require.NoError(t, err)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", n.Pid()))
	require.NoError(t, err)
	require.Contains(t, string(maps), "[stack]")
	for line := range strings.Lines(string(maps)) {
		require.NotContains(t, line, folder)
	}
}
