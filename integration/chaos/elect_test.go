package chaos

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
)

// H5: the only in-sync replica is dead, and loss is accepted, by the operator or by the topic. Of the two replicas that are
// there the one with the longer log leads, although the other one is first in the partition's list.
func TestH5_TheLongestLogLeadsWhereLossIsAccepted(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	const operator, setting = "operator", "setting"
	first, short, long := c.member(1), c.member(2), c.member(3)
	for _, topic := range []string{operator, setting} {
		c.assign(topic, []int32{1, 2, 3}, "min.insync.replicas", "1")
	}
	cl := c.client(kgo.ProducerBatchCompression(kgo.NoCompression()))
	say := func(from, to int) {
		t.Helper()
		for _, topic := range []string{operator, setting} {
			for i := from; i < to; i++ {
				ctx, cancel := context.WithTimeout(t.Context(), recovery)
				require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "record %d", i)}).FirstErr())
				cancel()
			}
		}
	}
	inSync := func(n int) {
		t.Helper()
		c.until(recovery, "the in-sync set is what lives", func() error {
			for _, topic := range []string{operator, setting} {
				ps, err := c.topic(topic)
				if err != nil {
					return err
				}
				if len(ps[0].ISR) != n || ps[0].Leader != 1 {
					return fmt.Errorf("%s: leader %d, in sync %v", topic, ps[0].Leader, ps[0].ISR)
				}
			}
			return nil
		})
	}
	inSync(3)
	say(0, 10)
	short.kill()
	inSync(2)
	say(10, 20)
	long.kill()
	inSync(1)
	say(20, 30)
	first.kill()
	for _, m := range []*member{short, long} {
		m.revive()
	}
	c.until(recovery, "two brokers are there, and nobody leads", func() error {
		for _, m := range []*member{short, long} {
			if err := live(m); err != nil {
				return err
			}
			for _, topic := range []string{operator, setting} {
				ps, err := c.topicOf(m, topic)
				if err == nil && ps[0].Leader != -1 {
					err = fmt.Errorf("%s: broker %d names leader %d", topic, m.id, ps[0].Leader)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	c.until(recovery, "the operator accepts the loss", func() error {
		out, diag, code := long.Tool("topic", "elect", operator, "--accept-loss")
		if code != 0 {
			return fmt.Errorf("%s%s", out, diag)
		}
		return nil
	})
	out, diag, code := long.Tool("topic", "alter", setting, "--set", "unclean.leader.election.enable=true")
	require.Zero(t, code, "%s%s", out, diag)
	for _, topic := range []string{operator, setting} {
		c.until(recovery, "the longer log leads", func() error {
			ps, err := c.topicOf(short, topic)
			if err == nil && ps[0].Leader < 0 {
				err = fmt.Errorf("%s: nobody leads", topic)
			}
			if err == nil {
				require.EqualValues(t, long.id, ps[0].Leader, "%s: the one with 10 records leads, not the one with 20", topic)
				if len(ps[0].ISR) != 2 {
					err = fmt.Errorf("%s: in sync %v", topic, ps[0].ISR)
				}
			}
			return err
		})
		records, err := checker.Read(t.Context(), long.clients.Addr(), topic, 0, 0, 20)
		require.NoError(t, err)
		require.Len(t, records, 20)
		for i, r := range records {
			require.Equal(t, fmt.Sprintf("record %d", i), string(r.Value))
		}
	}
	c.until(recovery, "both elections are counted", func() error {
		lost := 0.0
		for _, m := range []*member{short, long} {
			all, err := m.Metrics()
			if err != nil {
				return err
			}
			lost += all[`tidemark_cluster_elections_total{kind="may_lose"}`]
		}
		if lost != 2 {
			return fmt.Errorf("%v are", lost)
		}
		return nil
	})
	first.revive()
	for _, topic := range []string{operator, setting} {
		c.until(recovery, "the dead one comes back as a follower", func() error { return c.full(topic) })
	}
}

// assign makes a topic of one partition with the replicas that are named; configs are name, value, name, value.
func (c *cluster) assign(topic string, replicas []int32, configs ...string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, -1, -1
	rt.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	for i := 0; i+1 < len(configs); i += 2 {
		rt.Configs = append(rt.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	req.Topics = append(req.Topics, rt)
	cl := c.client()
	harness.Change(c.t, "create "+topic, kerr.TopicAlreadyExists, func() error {
		resp, err := req.RequestWith(c.t.Context(), cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	})
}
