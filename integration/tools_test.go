package integration

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
)

// What one command has made the next one finds, whichever broker answers it; but for a broker that is later than the three
// seconds for which the command waits.
func TestATopicIsFoundByTheNextCommand(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, harness.RealStores(t), 3, nil)
	for i := range 8 {
		topic, began := fmt.Sprint("made-", i), time.Now()
		_, diag, code := nodes[0].Tool("topic", "create", topic)
		if took := time.Since(began); took >= 3*time.Second {
			t.Logf("%s took %v: %s", topic, took, diag)
			continue
		}
		require.Zero(t, code, diag)
		_, diag, code = nodes[0].Tool("topic", "describe", topic)
		require.Zero(t, code, diag)
	}
}
