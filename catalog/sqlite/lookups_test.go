package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog/catalogtest"
	"tidemark/catalog/relational"
)

// beside opens the file of a running store once more, past its lock.
func beside(t testing.TB, path string) *sql.DB {
	t.Helper()
	d, err := pool(path, 1, "foreign_keys(1)")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// TestLookupsAreProbesHoweverManyRows fills one partition and looks at the plans and the answers.
func TestLookupsAreProbesHoweverManyRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	w := catalogtest.NewWorld(t, openTest(t, path))
	p := w.OnePartition()
	n := catalogtest.Rows(t)
	d := beside(t, path)
	numbers := fmt.Sprintf(`(WITH RECURSIVE r (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM r WHERE i + 1 < %d) SELECT i FROM r) AS s`, n)
	_, err := d.Exec(catalogtest.FillSQL(numbers, `zeroblob(32)`), p.ID.Topic.Hex())
	require.NoError(t, err)
	_, err = d.Exec(catalogtest.FillDone, p.ID.Topic.Hex(), n)
	require.NoError(t, err)

	var casts plain
	plans := []struct{ sql, search string }{
		{relational.SegmentAtSQL, "SEARCH segments USING INDEX segments_base (topic=? AND partition=? AND base<?)"},
		{relational.SegmentAtTimeSQL, "SEARCH segments USING INDEX segments_upto (topic=? AND partition=? AND max_ts_upto>?)"},
		{relational.NextAtTimeSQL, "SEARCH segments USING INDEX segments_base (topic=? AND partition=? AND base>?)"},
		{relational.LatestInTimeSQL, "SEARCH segments USING INDEX segments_latest (topic=? AND partition=?)"},
	}
	for _, plan := range plans {
		args := []any{p.ID.Topic.Hex(), 0, 1000, 1000, 256}[:strings.Count(plan.sql, "$")]
		rows, err := d.QueryContext(context.Background(), "EXPLAIN QUERY PLAN "+casts.text(plan.sql), args...)
		require.NoError(t, err)
		var steps []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &detail))
			steps = append(steps, detail)
		}
		require.NoError(t, rows.Close())
		require.Contains(t, steps, plan.search)
		require.NotContains(t, strings.Join(steps, "\n"), "SCAN segments")
		require.NotContains(t, strings.Join(steps, "\n"), "TEMP B-TREE")
	}
	catalogtest.Lookups(w, p.ID, n)
	catalogtest.Upkeep(p, n)
}
