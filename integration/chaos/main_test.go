package chaos

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// setting is a duration that a variable may change.
func setting(t *testing.T, name string, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, "%s", name)
	return d
}

// many is a number from the environment.
func many(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "%s", name)
	return n
}

// seedOf is the seed of a test's choices: TIDEMARK_CHAOS_SEED, or by chance.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("TIDEMARK_CHAOS_SEED")
	if text == "" {
		return rand.Uint64() >> 40
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return seed
}
