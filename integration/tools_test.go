package integration

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/integration/harness"
)

// What one command has made the next one finds, whichever broker answers it.
func TestATopicIsFoundByTheNextCommand(t *testing.T) {
	t.Parallel()
	nodes := serveCluster(t, harness.RealStores(t), 3, nil)
	for i := range 8 {
		topic := fmt.Sprint("made-", i)
		_, diag, code := nodes[0].Tool("topic", "create", topic)
		require.Zero(t, code, diag)
		_, diag, code = nodes[0].Tool("topic", "describe", topic)
		require.Zero(t, code, diag)
	}
}
