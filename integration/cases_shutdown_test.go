package integration

import (
	"bytes"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// L3: SIGTERM while the bucket says nothing, a hundred fetches wait, fifty cold reads hang and one client does not read
// its socket: the process ends cleanly, long before what it waits for, and starts again.
func TestL3_TermWithEverythingHanging(t *testing.T) {
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_COLD_READ_TIMEOUT": "1h"}})
	coldTens(t, n, "l3", 101)
	stores.S3.Add(s3proxy.Rule{Hang: true})
	for i := range 100 {
		_, err := n.Raw(t).Send(fetchAt("l3", 0, 101, 3_600_000))
		require.NoError(t, err)
		if i%2 == 0 {
			_, err := n.Raw(t).Send(fetchAt("l3", 0, int64(i), 3_600_000))
			require.NoError(t, err)
		}
	}
	deaf, err := net.Dial("tcp", n.Kafka)
	require.NoError(t, err)
	defer deaf.Close()
	require.NoError(t, deaf.SetWriteDeadline(time.Now().Add(2*time.Second)))
	_, _ = deaf.Write(bytes.Repeat(n.Raw(t).Frame(fetchAt("l3", 0, 100, 0)), 5000))
	harness.Until(t, time.Minute, "cold reads hang", func() error {
		if got := stores.S3.Count(getSegment); got == 0 {
			return fmt.Errorf("no request")
		}
		return nil
	})
	started := time.Now()
	require.Zero(t, n.Term(), "exit code")
	t.Logf("ended in %v", time.Since(started).Round(time.Millisecond))
	stores.S3.Clear()
	started = time.Now()
	n.Start()
	t.Logf("ready again in %v", time.Since(started).Round(time.Millisecond))
	readTens(t, n, "l3", 0, 101)
}
