package chaos

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	throttleRate  = 1 << 20 // bytes a second
	throttleBurst = 2 << 20 // what one answer brings before it is paid off, twice
)

// A replica that is added under a throttle (KIP-73), as kafka-reassign-partitions --throttle sets it, copies no more than the
// rate allows, be it the leader's or the follower's; what is in sync goes on meanwhile, and the move ends when the throttle is
// taken off as the tool's --verify does.
func TestKIP73_AnAddedReplicaIsThrottled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	for _, side := range []string{"leader", "follower"} {
		t.Run(side, func(t *testing.T) { c.throttledMove(t, side) })
	}
}

func (c *cluster) throttledMove(t *testing.T, side string) {
	topic := "moved-" + side
	no := "false"
	c.make(topic, 1, 2, map[string]*string{"remote.storage.enable": &no})
	cl := c.client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	produce := func(records int) {
		for range records {
			cl.Produce(t.Context(), &kgo.Record{Value: make([]byte, 16<<10)}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
		}
		require.NoError(t, cl.Flush(t.Context()))
	}
	produce(12 << 20 / (16 << 10))
	leader := c.leader(topic, 0)
	ps := c.described(topic)
	var added *member
	to := []int32{int32(leader.id)}
	for _, m := range c.members {
		if !slices.Contains(ps[0].Replicas, int32(m.id)) {
			added = m
		} else if m != leader {
			to = append(to, int32(m.id))
		}
	}
	c.alterRates(t, kadm.AlterConfig{Op: kadm.SetConfig, Name: side + ".replication.throttled.rate", Value: kadm.StringPtr(fmt.Sprint(throttleRate))})
	c.alterTopic(t, topic, kadm.AlterConfig{Op: kadm.SetConfig, Name: side + ".replication.throttled.replicas", Value: kadm.StringPtr("*")})

	copied := func() float64 { return added.Metric("tidemark_replication_fetched_bytes_total") }
	before, began := copied(), time.Now()
	c.reassign(topic, append(to, int32(added.id)))
	within := func() float64 {
		got := copied() - before
		allowed := throttleRate*time.Since(began).Seconds() + throttleBurst
		require.LessOrEqual(t, got, allowed, "the replica copied more than the throttle allows")
		return got
	}
	c.until(recovery, "the added replica copies", func() error {
		if within() < throttleBurst {
			return fmt.Errorf("%.0f bytes so far", copied()-before)
		}
		return nil
	})
	produce(2 << 20 / (16 << 10)) // with acks=all, of those who are in sync
	got, took := within(), time.Since(began)
	t.Logf("%.1f MiB copied in %.1f s", got/(1<<20), took.Seconds())

	for _, name := range []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate", "replica.alter.log.dirs.io.max.bytes.per.second"} {
		c.alterRates(t, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	c.until(recovery, "the added replica is in sync", func() error { return c.full(topic) })
	c.alterTopic(t, topic, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: side + ".replication.throttled.replicas"})
}

// reassign gives partition 0 of a topic other replicas.
func (c *cluster) reassign(topic string, replicas []int32) {
	c.t.Helper()
	var to kadm.AlterPartitionAssignmentsReq
	to.Assign(topic, 0, replicas)
	c.until(recovery, "the reassignment begins", func() error {
		moved, err := c.adm.AlterPartitionAssignments(c.t.Context(), to)
		return errors.Join(err, moved.Error())
	})
}

// alterRates changes a setting of every broker while it runs.
func (c *cluster) alterRates(t *testing.T, change kadm.AlterConfig) {
	t.Helper()
	c.until(recovery, change.Name+" is set", func() error {
		all, err := c.adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{change}, 1, 2, 3)
		for _, r := range all {
			err = errors.Join(err, r.Err)
		}
		if err == nil && len(all) != brokers {
			err = fmt.Errorf("%d brokers answered", len(all))
		}
		return err
	})
}

func (c *cluster) alterTopic(t *testing.T, topic string, change kadm.AlterConfig) {
	t.Helper()
	c.until(recovery, change.Name+" is set", func() error {
		all, err := c.adm.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{change}, topic)
		for _, r := range all {
			err = errors.Join(err, r.Err)
		}
		return err
	})
}
