package broker_test

import (
	"encoding/hex"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"tidemark/broker/brokertest"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/hotlog/disk/disktest"
	"tidemark/record"
)

// H28: a write to one partition's log fails. That partition is led by another at once and /readyz tells why; the broker goes
// on with the others, and its next life is another incarnation.
func TestH28_OneFailedLogCostsItsPartitionOnly(t *testing.T) {
	disk := disktest.New(t.TempDir())
	c := brokertest.StartCluster(t, 3, brokertest.Options{Disk: hotlog.DataDirOptions{FS: disk}})
	conn := dial(t, c.Node(1))
	id := conn.create("one", 1, nil)
	conn.create("other", 3, nil)
	byTopic := func() (one catalog.Partition, others []catalog.Partition) {
		for _, p := range rows(t, c) {
			if p.ID.Topic == catalog.TopicID(id) {
				one = p
			} else {
				others = append(others, p)
			}
		}
		return one, others
	}
	one, _ := byTopic()
	victim := c.Node(int(one.Leader))
	incarnation := one.ISR[0].Incarnation
	for _, m := range one.ISR {
		if m.Broker == one.Leader {
			incarnation = m.Incarnation
		}
	}
	dir := filepath.Join(filepath.Base(victim.Dir), hex.EncodeToString(one.ID.Topic[:])+"-0")
	disk.Fail(disktest.Fault{Op: "write", Name: filepath.Join(dir, "00000000000000000000.log"), Err: syscall.EIO})
	write := func(n *brokertest.Node, topic string, part int32) int16 {
		return dial(t, n).produce(topic, part, batchOf(1, record.CodecNone, "v")).ErrorCode
	}
	require.Eventually(t, func() bool { return write(victim, "one", 0) == kerr.KafkaStorageError.Code }, time.Minute, 20*time.Millisecond)

	require.Eventually(t, func() bool {
		now, _ := byTopic()
		return now.Leader != catalog.NoBroker && now.Leader != one.Leader && now.LeaderEpoch > one.LeaderEpoch && len(now.ISR) == 2 && len(now.ELR) == 0
	}, time.Minute, 20*time.Millisecond, "another leads, and this one is in no set")
	require.Eventually(t, func() bool {
		now, _ := byTopic()
		return write(c.Node(int(now.Leader)), "one", 0) == 0
	}, time.Minute, 50*time.Millisecond)
	_, others := byTopic()
	for _, p := range others {
		require.Len(t, p.ISR, 3, "the broker is in sync with what else it has")
		require.Eventually(t, func() bool { return write(c.Node(int(p.Leader)), "other", p.ID.Partition) == 0 }, time.Minute, 20*time.Millisecond)
	}
	require.Eventually(t, func() bool {
		return strings.Contains(readyBody(t, victim), "partition one-0 is not served: its local log has failed")
	}, time.Minute, 50*time.Millisecond)
	resp, err := http.Get("http://" + victim.HTTP + "/readyz")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)

	disk.Heal()
	require.Error(t, victim.Stop(), "a stop that is not a clean one")
	c.Restart(int(one.Leader))
	require.Eventually(t, func() bool {
		now, _ := byTopic()
		for _, m := range now.ISR {
			if m.Broker == one.Leader {
				return m.Incarnation != incarnation
			}
		}
		return false
	}, time.Minute, 50*time.Millisecond, "it is back in sync as somebody new")
}
