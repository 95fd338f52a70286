package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/catalogtest"
	"tidemark/integration/harness"
	"tidemark/record"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
	"tidemark/tiering/object/objecttest"
	"tidemark/tiering/objstore"
)

// A broker of a topic with very many objects (TIDEMARK_CATALOG_ROWS) starts, finds by offset and by time, moves the log
// start and lists as one with few. The objects are not there, but for the last one, which a broker reads at its start.
func TestATopicOfManyObjects(t *testing.T) {
	t.Parallel()
	n, rows := manyObjects(t, harness.RealStores(t))
	began := time.Now()
	n.Start()
	t.Logf("%d rows: ready in %v", rows, time.Since(began).Round(time.Millisecond))
	harness.Until(t, 3*time.Minute, "a full checkpoint is written", func() error {
		if n.Metric("tidemark_checkpoints_total") < 1 {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	t.Logf("%d rows: first checkpoint, of %.0f bytes, %v after the start; resident memory %.0f MB", rows, n.Metric("tidemark_checkpoint_bytes_total"),
		time.Since(began).Round(time.Millisecond), n.Metric("process_resident_memory_bytes")/1e6)
	require.EqualValues(t, 0, n.Offset(t, "many", 0, harness.Start))
	require.EqualValues(t, 10*rows-1, n.Offset(t, "many", 0, harness.LatestTiered))
	produceTens(t, n, "many", 10*rows, 10*rows+3)

	began = time.Now()
	out, diag, code := n.Tool("tier", "ls", "many", "--partition", "0", "--after", fmt.Sprint(5*rows), "--limit", "100", "--json")
	require.Zero(t, code, diag)
	require.Len(t, strings.Split(strings.TrimSpace(out), "\n"), 100)
	t.Logf("%d rows: tier ls of 100 of them, the tool's start included, %v", rows, time.Since(began).Round(time.Millisecond))

	began = time.Now()
	low, err := deleteRecords(t, n, "many", 100)
	require.NoError(t, err)
	require.EqualValues(t, 100, low)
	t.Logf("%d rows: DeleteRecords of ten rows %v", rows, time.Since(began).Round(time.Millisecond))

	n.AlterTopic(t, "many", "retention.bytes", fmt.Sprint(100*(rows-5000)))
	began = time.Now()
	harness.Until(t, 3*time.Minute, "retention removes five thousand rows in steps", func() error {
		if got := n.Offset(t, "many", 0, harness.Start); got < 49_000 {
			return fmt.Errorf("the log starts at %d", got)
		}
		return nil
	})
	t.Logf("%d rows: retention of some 5,000 of them %v", rows, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	n.Kill()
	n.Start()
	t.Logf("%d rows: ready after SIGKILL in %v", rows, time.Since(began).Round(time.Millisecond))
}

// manyObjects is a node, down, whose catalog names so many objects of a topic.
func manyObjects(t *testing.T, stores harness.Stores) (*harness.Node, int) {
	t.Helper()
	n := harness.Serve(t, stores, harness.Options{Env: map[string]string{"TIDEMARK_COMPACTION_WORKERS": "0", "TIDEMARK_SCRUB_BANDWIDTH": "0"}})
	tens(t, n, "many", 1)
	require.Zero(t, n.Term())
	rows := catalogtest.Rows(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, stores.CatalogURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(ctx) })
	exec := func(sql string, args ...any) {
		_, err := conn.Exec(ctx, sql, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
		require.NoError(t, err)
	}
	var topic, cluster string
	require.NoError(t, conn.QueryRow(ctx, `SELECT t.id::text, c.id::text FROM topics t, cluster c WHERE t.name = 'many'`).Scan(&topic, &cluster))
	topicID, clusterID := uuid(t, topic), uuid(t, cluster)
	exec(`ALTER TABLE segments DISABLE TRIGGER segments_never_overlap`)
	exec(catalogtest.FillSQL(fmt.Sprintf(`generate_series(0::bigint, %d) AS i`, rows-2), `decode(repeat('ab', 32), 'hex')`), topic)
	exec(`ALTER TABLE segments ENABLE TRIGGER segments_never_overlap`)
	base := record.Offset(10 * (rows - 1))
	built, raw := objecttest.Build(t, object.Spec{Cluster: object.ID(clusterID), Topic: object.ID(topicID), TopicName: "many", Base: base, Next: base + 10, AppendTime: 5})
	require.NoError(t, stores.Bucket.Put(ctx, built.Key(), objstore.Bytes(raw), objstore.PutOptions{}))
	s := inspect.Row(&built.Footer, built.SHA256)
	exec(`INSERT INTO segments (topic, partition, base, next, bytes, records, min_ts, max_ts, max_ts_upto, append_time, key, tail_position, data_bytes,
			sha256, leader_epoch, generation, clean_since, attempt)
		VALUES ($1, 0, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11, $12, 0, 0, 0, $13)`,
		topic, int64(s.Base), int64(s.Next), s.Bytes, s.Records, s.MinTimestamp, s.MaxTimestamp, s.AppendTime, s.Key, s.TailPosition, s.DataBytes, s.SHA256[:], s.Attempt)
	exec(catalogtest.FillDone, topic, int64(rows))
	exec(`UPDATE partitions SET tier_bytes = tier_bytes - 100 + $2 WHERE topic = $1`, topic, s.Bytes)
	exec(`ANALYZE segments`)
	return n, rows
}

func uuid(t *testing.T, text string) catalog.UUID {
	t.Helper()
	id, err := catalog.ParseUUID(strings.ReplaceAll(text, "-", ""))
	require.NoError(t, err)
	return id
}
