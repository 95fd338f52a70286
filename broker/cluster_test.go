package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/broker/brokertest"
	"tidemark/catalog"
	"tidemark/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// rows are the partitions of the catalog.
func rows(t *testing.T, c *brokertest.Cluster) []catalog.Partition {
	t.Helper()
	ch, err := c.Catalog.Pull(context.Background(), catalog.Position{})
	require.NoError(t, err)
	return ch.Partitions
}

func slots(t *testing.T, c *brokertest.Cluster) map[catalog.BrokerID]int {
	t.Helper()
	gs, err := c.Catalog.SlotHolders(context.Background())
	require.NoError(t, err)
	n := map[catalog.BrokerID]int{}
	for _, g := range gs {
		n[g.Broker]++
	}
	return n
}

func TestThreeBrokersOnAnEmptyDatabaseFormACluster(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{Env: []string{"TIDEMARK_BALANCE_DELAY=100ms"}})
	dial(t, c.Node(1)).create("t", 6, nil)
	led := map[catalog.BrokerID]int{}
	for _, p := range rows(t, c) {
		led[p.Leader]++
		require.Len(t, p.Replicas, 3, "the default replication factor")
		require.Len(t, p.ISR, 3)
	}
	require.Equal(t, map[catalog.BrokerID]int{1: 2, 2: 2, 3: 2}, led)
	require.Eventually(t, func() bool {
		n := slots(t, c)
		return n[1] >= 21 && n[2] >= 21 && n[3] >= 21
	}, 10*time.Second, 20*time.Millisecond, "the slots are spread")
}

// The new leader's row is there 3.5 s after the kill at the latest, whoever was killed (DESIGN §6).
func TestALeaderIsReplacedInTime(t *testing.T) {
	c := brokertest.StartCluster(t, 3, brokertest.Options{})
	dial(t, c.Node(1)).create("t", 6, nil)
	ls, err := c.Catalog.Leases(t.Context())
	require.NoError(t, err)
	victim := ls.Controller.Broker // the worst case: it was the controller too
	began := time.Now()
	go c.Node(int(victim)).Kill()
	require.Eventually(t, func() bool {
		for _, p := range rows(t, c) {
			if p.Leader == victim || p.Leader == catalog.NoBroker || len(p.ISR) != 2 {
				return false
			}
		}
		return slots(t, c)[victim] == 0
	}, 10*time.Second, 10*time.Millisecond)
	took := time.Since(began)
	t.Logf("new leaders %v after the kill of the controller", took)
	require.Less(t, took, 3500*time.Millisecond)
}
