package partition_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/partition"
)

// F7: the acknowledgement does not come in time after the append. The answer says so, so that the producer sends the
// batch again, and then it is told where the first one is.
func TestF7_AnAppendWhoseFateIsUnclearIsRetriedOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"min.insync.replicas": "2"})
	w.nodes[2].kill()
	b := idempotent(7, 0, "v0")
	require.Equal(t, kerr.RequestTimedOut.Code, w.nodes[1].produce(partition.AcksAll, 150*time.Millisecond, b).ErrorCode)
	w.nodes[2].back()
	again := w.nodes[1].produce(partition.AcksAll, patience, b)
	require.Zero(t, again.ErrorCode)
	require.Zero(t, again.BaseOffset)
	require.Equal(t, []string{"0:v0"}, w.nodes[1].consume(0))
}
