package harness

import (
	"testing"

	"tidemark/internal/testenv"
)

// FreePort is a port of this machine that no other node has, nor any connection while its node is down.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := testenv.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
