package broker_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/brokertest"
	"tidemark/catalog"
)

// goBack takes Postgres back to what it was at a version, as a failover to an asynchronous standby does:
// partitions' rows, the counter and the ledger.
type goBack struct {
	t    *testing.T
	conn *pgx.Conn
}

func remember(t *testing.T, dsn string) goBack {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	g := goBack{t, conn}
	g.exec(`CREATE SCHEMA past`)
	for _, table := range []string{"partitions", "counter", "topics", "topic_configs", "slots"} {
		g.exec(`CREATE TABLE past.` + table + ` AS TABLE public.` + table)
	}
	return g
}

func (g goBack) exec(sql string) {
	g.t.Helper()
	_, err := g.conn.Exec(context.Background(), sql)
	require.NoError(g.t, err)
}

func (g goBack) lose() {
	g.t.Helper()
	tx, err := g.conn.Begin(context.Background())
	require.NoError(g.t, err)
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`, // a standby knows nothing of constraints on the way back
		`DELETE FROM partitions`, `INSERT INTO partitions SELECT * FROM past.partitions`,
		`DELETE FROM topic_configs`, `DELETE FROM topics`,
		`INSERT INTO topics SELECT * FROM past.topics`, `INSERT INTO topic_configs SELECT * FROM past.topic_configs`,
		`DELETE FROM slots`, `INSERT INTO slots SELECT * FROM past.slots`,
		`UPDATE counter c SET version = p.version, nonce = p.nonce FROM past.counter p`,
		`DELETE FROM ledger l USING past.counter p WHERE l.version > p.version`,
	} {
		_, err := tx.Exec(context.Background(), sql)
		require.NoError(g.t, err, sql)
	}
	require.NoError(g.t, tx.Commit(context.Background()))
}

// A catalog that loses an election and a topic's creation gets both back from the brokers; no epoch is
// given twice, and nothing is removed from the bucket until somebody agrees.
func TestH2_BrokersRepairACatalogThatHasLostCommits(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("before", 3, nil)
	past := remember(t, c.DSN())
	victim := int(rows(t, c)[0].Leader)
	require.NoError(t, c.Node(victim).Stop()) // elections, which will be lost
	survivor := c.Live()[0]
	dial(t, survivor).create("after", 2, nil)
	var epochs = map[catalog.PartitionID]catalog.Partition{}
	known := rows(t, c)
	for _, p := range known {
		epochs[p.ID] = p
	}
	require.Len(t, known, 5)
	require.Eventually(t, func() bool { return seenBy(t, c, known) }, time.Minute, 20*time.Millisecond)

	past.lose()
	require.Eventually(t, func() bool {
		now := rows(t, c)
		if len(now) != 5 {
			return false
		}
		for _, p := range now {
			if p.Leader == catalog.NoBroker || p.LeaderEpoch <= epochs[p.ID].LeaderEpoch {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond, "each partition is led again, under an epoch that nobody had")
	for _, p := range rows(t, c) {
		require.NotEqual(t, catalog.BrokerID(victim), p.Leader)
		require.ElementsMatch(t, epochs[p.ID].ISR, p.ISR, "the set that the brokers knew, not the one of before")
	}
	for _, n := range c.Live() {
		require.Eventually(t, func() bool { return strings.Contains(readyBody(t, n), "agree-rewound") }, time.Minute, 50*time.Millisecond)
	}
}

// The same while no broker runs: what they had seen is on their disks.
func TestH2_ARestoredBackupIsRepairedByTheBrokersThatStart(t *testing.T) {
	c := brokertest.StartCluster(t, 2, brokertest.Options{})
	dial(t, c.Node(1)).create("before", 1, nil)
	past := remember(t, c.DSN())
	dial(t, c.Node(1)).create("after", 1, nil)
	require.Eventually(t, func() bool { return holds(t, c.Node(2), "after") }, time.Minute, 20*time.Millisecond)
	require.NoError(t, c.Node(1).Stop())
	require.NoError(t, c.Node(2).Stop())
	before := map[catalog.PartitionID]catalog.Partition{}
	for _, p := range rows(t, c) {
		before[p.ID] = p
	}
	past.lose()
	c.Restart(2)
	c.Restart(1)
	require.Eventually(t, func() bool {
		now := rows(t, c)
		for _, p := range now {
			if p.Leader == catalog.NoBroker || p.LeaderEpoch <= before[p.ID].LeaderEpoch || len(p.ISR) != 2 {
				return false
			}
		}
		return len(now) == 2
	}, time.Minute, 50*time.Millisecond)
}

// holds says whether a broker's own image has a topic.
func holds(t *testing.T, n *brokertest.Node, topic string) bool {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.MetadataResponse](dial(t, n), req).Topics[0].ErrorCode == 0
}

func readyBody(t *testing.T, n *brokertest.Node) string {
	t.Helper()
	resp, err := http.Get("http://" + n.HTTP + "/readyz")
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

// seenBy says whether every live broker's image has the partitions.
func seenBy(t *testing.T, c *brokertest.Cluster, known []catalog.Partition) bool {
	for _, n := range c.Live() {
		if !holds(t, n, "after") {
			return false
		}
	}
	return len(known) > 0
}
