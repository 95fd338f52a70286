package integration

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidemark/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// kills is how often the soak kills a broker.
func kills(t *testing.T) int {
	n, err := strconv.Atoi(setting("TIDEMARK_SOAK_KILLS", "5"))
	require.NoError(t, err)
	return n
}

// outage is how long a store is away.
func outage(t *testing.T) time.Duration {
	d, err := time.ParseDuration(setting("TIDEMARK_SOAK_OUTAGE", "8s"))
	require.NoError(t, err)
	return d
}

func setting(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// within is a context that ends with the test or after d.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
