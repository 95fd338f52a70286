package broker_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/brokertest"
	"tidemark/record"
)

// A broker of a partition that nobody else can lead lives on when the partition's log has failed, and says that it is not
// ready, and why.
func TestReadyzTellsOfAFailedLog(t *testing.T) {
	dir := t.TempDir()
	n := brokertest.Start(t, brokertest.Options{Dir: dir, Env: []string{"TIDEMARK_LOG_LEVEL=error"}})
	c := dial(t, n)
	c.create("alone", 1, map[string]string{"segment.bytes": "1048576"})
	readyz := func() (int, string) {
		resp, err := http.Get("http://" + n.HTTP + "/readyz")
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(body)
	}
	status, body := readyz()
	require.Equal(t, http.StatusOK, status, body)

	value := string(make([]byte, 500_000))
	c.produce("alone", 0, batchOf(1, record.CodecNone, value))
	logs, err := filepath.Glob(filepath.Join(dir, "*-0"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	require.NoError(t, os.RemoveAll(logs[0])) // the next segment cannot be made
	require.Eventually(t, func() bool {
		c.produce("alone", 0, batchOf(1, record.CodecNone, value))
		status, body = readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(body, "partition alone-0 is not served: its local log has failed")
	}, time.Minute, 50*time.Millisecond)
	require.Error(t, n.Stop(), "the log cannot be closed cleanly")
}
