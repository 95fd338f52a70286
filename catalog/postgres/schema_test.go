package postgres

import (
	"context"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/internal/testenv"
)

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// K4: what the whole contract needs no session for, where there is no pooler to show it.
func TestK4_TheContractHoldsWithoutSessions(t *testing.T) {
	if _, err := exec.LookPath("pgbouncer"); err == nil {
		t.Skip("TestK4_TheContractHoldsBehindPgbouncer shows more")
	}
	catalogtest.Run(t, func(t *testing.T) catalog.Store { return openTest(t, testenv.Postgres(t), Options{Pooler: true}) })
}

func TestAnyNumberOfBrokersMigrateAnEmptyDatabaseAtOnce(t *testing.T) {
	dsn := testenv.Postgres(t)
	var wg sync.WaitGroup
	ids := make([]catalog.UUID, 6)
	for i := range ids {
		wg.Go(func() {
			s, err := Open(context.Background(), dsn, Options{})
			if err != nil {
				t.Errorf("open: %v", err)
				return
			}
			defer func() { _ = s.Close() }()
			row, err := s.Cluster(context.Background())
			if err != nil {
				t.Errorf("cluster: %v", err)
			}
			ids[i] = row.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
}

// A migration whose connection breaks has done nothing, and is begun anew.
func TestAMigrationOutlivesItsConnection(t *testing.T) {
	dsn, ctx := testenv.Postgres(t), context.Background()
	other := connect(t, dsn)
	_, err := other.Exec(ctx, `SELECT pg_advisory_lock($1)`, int64(migrationLock))
	require.NoError(t, err)
	opened := make(chan error, 1)
	go func() {
		s, err := Open(ctx, dsn, Options{})
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	killed := false
	for !killed { // until it waits for the lock
		require.NoError(t, other.QueryRow(ctx, `SELECT coalesce(bool_or(pg_terminate_backend(pid)), false) FROM pg_locks
			WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&killed))
	}
	_, err = other.Exec(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock))
	require.NoError(t, err)
	require.NoError(t, <-opened)
}

func TestH35_AHigherLevelIsRefusedANewerSchemaIsNot(t *testing.T) {
	dsn := testenv.Postgres(t)
	ctx := context.Background()
	require.NoError(t, openTest(t, dsn, Options{}).Close())
	conn := connect(t, dsn)
	_, err := conn.Exec(ctx, `INSERT INTO schema_migrations (number, name) VALUES (9999, 'of a later release')`)
	require.NoError(t, err)
	require.NoError(t, openTest(t, dsn, Options{}).Close())
	_, err = conn.Exec(ctx, `UPDATE cluster SET level = 2`)
	require.NoError(t, err)
	_, err = Open(ctx, dsn, Options{})
	require.ErrorIs(t, err, catalog.ErrLevel)
	require.False(t, catalog.Unavailable(err))
}

func TestP8_TheDatabaseItselfRefusesWhatBreaksARule(t *testing.T) {
	dsn := testenv.Postgres(t)
	w := catalogtest.NewWorld(t, openTest(t, dsn, Options{}))
	p := w.OnePartition()
	p.Upload(0, 10)
	p.Upload(10, 20)
	conn := connect(t, dsn)
	insert := func(base, next int) string {
		return `INSERT INTO segments (topic, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key, tail_position,
			data_bytes, sha256, leader_epoch, generation, clean_since, attempt)
			SELECT topic, partition, ` + strconv.Itoa(base) + `, ` + strconv.Itoa(next) + `, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key, tail_position,
			data_bytes, sha256, leader_epoch, generation, clean_since, gen_random_uuid()::text FROM segments WHERE base = 0`
	}
	rows := []struct{ story, sql, code string }{
		{"a row that reaches into its right neighbour", insert(5, 15), "23P01"},
		{"a row inside another", insert(12, 13), "23P01"},
		{"the same base", insert(10, 11), "23505"},
		{"an empty range", insert(30, 30), "23514"},
		{"start falls", `UPDATE partitions SET start = -1`, "23514"},
		{"tiered falls", `UPDATE partitions SET tiered = 19`, "23514"},
		{"start passes tiered", `UPDATE partitions SET start = 21`, "23514"},
		{"the ISR is emptied", `UPDATE partitions SET isr = '[]'`, "23514"},
		{"a partition goes before its segments", `DELETE FROM partitions`, "23503"},
	}
	for _, row := range rows {
		_, err := conn.Exec(context.Background(), row.sql)
		var pg *pgconn.PgError
		require.ErrorAs(t, err, &pg, row.story)
		require.Equal(t, row.code, pg.Code, "%s: %v", row.story, err)
	}
	_, err := conn.Exec(context.Background(), insert(20, 30))
	require.NoError(t, err)
}
