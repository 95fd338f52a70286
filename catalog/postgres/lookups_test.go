package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"tidemark/catalog/catalogtest"
	"tidemark/catalog/relational"
	"tidemark/internal/testenv"
)

// TestLookupsAreProbesHoweverManyRows fills one partition and looks at the plans that prepared
// statements get, at the rows that they read, and at the answers.
func TestLookupsAreProbesHoweverManyRows(t *testing.T) {
	dsn := testenv.Postgres(t)
	ctx := context.Background()
	w := catalogtest.NewWorld(t, openTest(t, dsn, Options{}))
	p := w.OnePartition()
	w.OnePartition().Upload(0, 10) // another partition, so that the first columns of an index matter
	n := catalogtest.Rows(t)
	conn := connect(t, dsn)
	topic := p.ID.Topic.Hex()
	exec := func(sql string, args ...any) {
		_, err := conn.Exec(ctx, sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		require.NoError(t, err)
	}
	exec(`ALTER TABLE segments DISABLE TRIGGER segments_never_overlap`)
	exec(catalogtest.FillSQL(fmt.Sprintf(`generate_series(0::bigint, %d) AS i`, n-1), `decode(repeat('ab', 32), 'hex')`), topic)
	exec(`ALTER TABLE segments ENABLE TRIGGER segments_never_overlap`)
	exec(catalogtest.FillDone, topic, int64(n))
	exec(`ANALYZE segments`)
	exec(`SET plan_cache_mode = force_generic_plan`)

	middle := int64(n / 2)
	plans := []struct {
		name, sql, args string
		most            float64 // rows read
	}{
		{"at", relational.SegmentAtSQL, fmt.Sprintf("'%s', 0, %d", topic, 10*middle), 1},
		{"attime", relational.SegmentAtTimeSQL, fmt.Sprintf("'%s', 0, %d", topic, 1000*middle), 1},
		{"next", relational.NextAtTimeSQL, fmt.Sprintf("'%s', 0, %d, %d, 256", topic, 10*middle, 1000*middle), 256},
		{"latest", relational.LatestInTimeSQL, fmt.Sprintf("'%s', 0", topic), 1},
	}
	for _, plan := range plans {
		exec(fmt.Sprintf(`PREPARE %s AS %s`, plan.name, plan.sql))
		var text string
		require.NoError(t, conn.QueryRow(ctx, fmt.Sprintf(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE %s(%s)`, plan.name, plan.args),
			pgx.QueryExecModeSimpleProtocol).Scan(&text))
		var out []struct{ Plan node }
		require.NoError(t, json.Unmarshal([]byte(text), &out))
		require.LessOrEqual(t, out[0].Plan.read(t), plan.most, "%s: %s", plan.name, text)
	}
	catalogtest.Lookups(w, p.ID, n)
	catalogtest.Upkeep(p, n)
}

// node is a node of a plan as EXPLAIN shows it.
type node struct {
	Type    string  `json:"Node Type"`
	Index   string  `json:"Index Name"`
	Rows    float64 `json:"Actual Rows"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []node
}

// read is how many rows of the table the plan has read; only index scans may.
func (n node) read(t *testing.T) (rows float64) {
	require.NotContains(t, []string{"Seq Scan", "Bitmap Heap Scan", "Sort"}, n.Type)
	if strings.HasPrefix(n.Type, "Index") {
		rows = n.Rows + n.Removed
	}
	for _, c := range n.Plans {
		rows += c.read(t)
	}
	return rows
}
