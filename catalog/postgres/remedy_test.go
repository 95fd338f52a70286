package postgres

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestRemediesOfWhatPostgresAnswers(t *testing.T) {
	said := map[string]bool{}
	for _, code := range []string{"53300", "57P03", "57014", "28P01", "3D000", "42501", "XX000"} {
		remedy := Remedy(fmt.Errorf("open: %w", &pgconn.PgError{Code: code}))
		require.NotEmpty(t, remedy)
		require.False(t, said[remedy], "%s has a remedy of its own", code)
		said[remedy] = true
	}
	require.Empty(t, Remedy(errors.New("no answer")))
}
