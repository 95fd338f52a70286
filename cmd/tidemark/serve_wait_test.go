package main

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"tidemark/internal/testenv"
)

// awaitLine waits until a broker that starts has printed something.
func awaitLine(t *testing.T, s served, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(s.errs.String(), text) }, time.Minute, 10*time.Millisecond, text)
	require.Empty(t, s.ended, "it goes on waiting")
}

// asPostgres runs statements as the server's superuser.
func asPostgres(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	for _, sql := range statements {
		_, err := conn.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, conn.Close(t.Context()))
}

// withUser is a database's URL for another user or, if database is not empty, another database.
func withUser(t *testing.T, dsn, user, database string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	u.User = url.User(user)
	if database != "" {
		u.Path = "/" + database
	}
	return u.String()
}

// A broker that is started before its database waits for it, says what it waits for, each trouble once, and what can be done.
func TestServeWaitsForItsPostgres(t *testing.T) {
	pg := testenv.StartPostgres(t)
	dsn := pg.DSN(t)
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	asPostgres(t, dsn, `CREATE ROLE few LOGIN CONNECTION LIMIT 0`, `ALTER DATABASE `+u.Path[1:]+` OWNER TO few`)
	pg.Stop(t)
	s := startServe(t, withUser(t, dsn, "few", ""), "file://"+t.TempDir())
	const absent, crowded = "start Postgres there, or name the server and database that there are", "give Postgres a larger max_connections"
	awaitLine(t, s, absent)
	pg.Start(t)
	awaitLine(t, s, crowded)
	asPostgres(t, dsn, `ALTER ROLE few CONNECTION LIMIT -1`)
	awaitReady(t, s)
	for _, remedy := range []string{absent, crowded} {
		require.Equal(t, 1, strings.Count(s.errs.String(), remedy), s.errs.String())
	}
	require.Equal(t, exitDone, s.stop())
}

// What waiting cannot mend is told at once, however long a start may wait.
func TestServeEndsAtOnceForADatabaseThatItMayNotUse(t *testing.T) {
	dsn := testenv.Postgres(t)
	for name, c := range map[string]struct{ url, says string }{
		"a user that is not there":     {withUser(t, dsn, "nobody_here", ""), "name the user and password that Postgres knows"},
		"a database that is not there": {withUser(t, dsn, "postgres", "nowhere"), "make the database, or name one that there is"},
		"an URL that is none":          {"postgres://127.0.0.1:port/d", "TIDEMARK_CATALOG_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServe(t, c.url, "file://"+t.TempDir())
			code := <-s.ended
			s.ended <- code
			require.NotEqual(t, exitDone, code)
			require.Contains(t, s.errs.String(), c.says)
			require.NotContains(t, s.errs.String(), "the start waits for it")
		})
	}
}

func TestAServeThatWaitsForItsCatalogStopsCleanly(t *testing.T) {
	s := startServe(t, "postgres://u:secret@127.0.0.1:1/d", "file://"+t.TempDir())
	awaitLine(t, s, "the catalog does not answer; the start waits for it")
	require.Equal(t, exitDone, s.stop(), s.errs.String())
	require.NotContains(t, s.errs.String(), "secret")
}
