package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/internal/testenv"
)

// Who promises to read changes neither rows nor schema: not of a database that has no catalog, not of one whose schema is
// older, and not by mistake.
func TestReadOnlyBringsNothingUp(t *testing.T) {
	dsn := testenv.Postgres(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	tables := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()`).Scan(&n))
		return n
	}
	_, err = Open(t.Context(), dsn, Options{ReadOnly: true})
	require.ErrorIs(t, err, catalog.ErrLevel)
	require.ErrorContains(t, err, "holds no catalog")
	require.Zero(t, tables())

	s, err := Open(t.Context(), dsn, Options{})
	require.NoError(t, err)
	want, err := s.Cluster(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())

	r, err := Open(t.Context(), dsn, Options{ReadOnly: true})
	require.NoError(t, err)
	got, err := r.Cluster(t.Context())
	require.NoError(t, err)
	require.Equal(t, want.ID, got.ID)
	_, err = r.Pull(t.Context(), catalog.Position{})
	require.NoError(t, err)
	_, err = r.PurgeStep(t.Context(), 10)
	require.ErrorContains(t, err, "read-only transaction")
	_, err = r.db.pools[0].Exec(t.Context(), `UPDATE cluster SET level = level`)
	require.ErrorContains(t, err, "read-only transaction")
	require.NoError(t, r.Close())

	_, err = conn.Exec(t.Context(), `DELETE FROM schema_migrations WHERE number = (SELECT max(number) FROM schema_migrations)`)
	require.NoError(t, err)
	_, err = Open(t.Context(), dsn, Options{ReadOnly: true})
	require.ErrorIs(t, err, catalog.ErrLevel)
	require.ErrorContains(t, err, "start a broker of this release first")
	var have int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT max(number) FROM schema_migrations`).Scan(&have))
	files, err := migrations.ReadDir("migrations")
	require.NoError(t, err)
	require.Equal(t, len(files)-1, have)
}
