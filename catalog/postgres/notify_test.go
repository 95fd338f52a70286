package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// K9, K1: NOTIFY takes a lock of the whole server at COMMIT and LISTEN a session of its own: neither is used, in no statement
// and no trigger. State is pulled by its version (R12).
func TestK9_NothingIsNotified(t *testing.T) {
	word := regexp.MustCompile(`\b(pg_notify|NOTIFY|LISTEN)\b`)
	read := 0
	for _, pattern := range []string{"*.go", "../relational/*.go", "migrations/*.sql"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, f := range files {
			if filepath.Base(f) == "notify_test.go" {
				continue
			}
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			require.NotRegexp(t, word, string(text), f)
			read++
		}
	}
	require.Greater(t, read, 20)
}
