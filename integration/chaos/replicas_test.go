package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"tidemark/integration/checker"
	"tidemark/record"
)

// E6 with processes: a broker whose disk is wiped comes back as somebody new and copies only what is hot.
func TestE6_AWipedDiskIsFilledWithWhatIsHot(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	c.create("wiped", 1, "segment.bytes", "65536", "local.retention.bytes", "65536", "retention.ms", "-1")
	w := c.work("wiped", 1, usual)
	w.flows(recovery, "a healthy cluster takes records")
	victim := c.other(c.leader("wiped", 0))
	c.until(recovery, "most is tiered and freed", func() error { return hot(victim, "wiped", 1<<20) })
	victim.kill()
	victim.Wipe()
	victim.revive()
	took := c.until(recovery, "the emptied broker is in sync", func() error {
		if _, err := victim.Partition("wiped", 0); err != nil {
			return err
		}
		return c.full("wiped")
	})
	p, err := victim.Partition("wiped", 0)
	require.NoError(t, err)
	require.Positive(t, p.LocalStart, "it has copied history")
	t.Logf("in sync %v after its start; copied %.0f KiB, %d KiB are tiered", took.Round(time.Millisecond),
		victim.Metric("tidemark_replication_fetched_bytes_total")/1024, p.TierBytes/1024)
	w.end()
}

// hot says whether a broker has at least so many tiered bytes of partition 0 that it has not on disk.
func hot(m *member, topic string, atLeast int64) error {
	p, err := m.Partition(topic, 0)
	if err == nil && (p.TierBytes < atLeast || p.LocalStart == 0) {
		err = fmt.Errorf("tiered %d bytes, localStart %d", p.TierBytes, p.LocalStart)
	}
	return err
}

// H5: the last member of the in-sync set loses its disk. The partition stays offline, whoever else is there, until the
// operator accepts the loss; then it leads again, and what was tiered is there.
func TestH5_AnEmptiedLastMemberWaitsForTheOperator(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	c.create("last", 1, "segment.bytes", "16384", "min.insync.replicas", "1", "retention.ms", "-1")
	cl := c.client(kgo.DefaultProduceTopic("last"), kgo.ProducerBatchCompression(kgo.NoCompression()))
	say := func(from, to int) {
		for i := from; i < to; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), recovery)
			require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Value: fmt.Appendf(nil, "%01000d", i)}).FirstErr())
			cancel()
		}
	}
	say(0, 20)
	leader := c.leader("last", 0)
	second, third := c.other(leader), c.other(c.other(leader))
	second.kill()
	third.kill()
	c.until(recovery, "the leader is the only one in sync", func() error {
		ps, err := c.topic("last")
		if err == nil && len(ps[0].ISR) != 1 {
			err = fmt.Errorf("in sync: %v", ps[0].ISR)
		}
		return err
	})
	say(20, 50)
	var tiered record.Offset
	c.until(recovery, "something is tiered", func() error {
		p, err := leader.Partition("last", 0)
		if err == nil && p.Tiered < 40 {
			err = fmt.Errorf("tiered %d of %d, high watermark %d, uploads %+v", p.Tiered, p.LogEnd, p.HighWatermark, p.Upload)
		}
		tiered = p.Tiered
		return err
	})
	leader.kill()
	leader.Wipe()
	for _, m := range []*member{second, third, leader} {
		m.revive()
	}
	c.until(recovery, "all brokers are there", func() error {
		for _, m := range c.members {
			if err := live(m); err != nil {
				return err
			}
		}
		return nil
	})
	c.during(5 * time.Second)
	ps, err := c.topic("last")
	if err == nil {
		require.Equal(t, int32(-1), ps[0].Leader, "a partition whose last member lost its disk has no leader")
	}
	c.until(recovery, "the operator accepts the loss", func() error {
		if out, diag, code := second.Tool("topic", "elect", "last", "--accept-loss"); code != 0 {
			return fmt.Errorf("%s%s", out, diag)
		}
		return nil
	})
	c.until(recovery, "all replicas are in sync", func() error { return c.full("last") })
	say(100, 120)
	var end record.Offset
	c.until(recovery, "what was tiered is there, and what came after it", func() error {
		got, err := leader.Partition("last", 0)
		if end = got.LogEnd; err == nil && end < tiered+20 {
			err = fmt.Errorf("the log ends at %d, %d were tiered", end, tiered)
		}
		return err
	})
	records, err := checker.Read(t.Context(), c.seeds[0], "last", 0, 0, int64(tiered))
	require.NoError(t, err)
	require.Len(t, records, int(tiered))
	for i, r := range records {
		require.Equal(t, fmt.Sprintf("%01000d", i), string(r.Value))
	}
	t.Logf("50 records acknowledged, %d tiered; the log ends at %d after 20 more", tiered, end)
}

// live says whether a broker answers its health check; it need not be ready.
func live(m *member) error {
	status, body, err := m.Get("/healthz")
	if err == nil && status != 200 {
		err = fmt.Errorf("healthz: %d %s", status, body)
	}
	return err
}

// A replica that is added to a partition with a long history copies only the hot part of it. TIDEMARK_CHAOS_SEGMENTS is how long: 800
// objects are what 50 GB make in objects of 64 MiB; here they have 64 KiB.
func TestE13_ANewReplicaCopiesOnlyWhatIsHot(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	one := "1"
	size, local := "65536", "131072"
	c.make("long", 1, 1, map[string]*string{"segment.bytes": &size, "local.retention.bytes": &local, "min.insync.replicas": &one})
	cl := c.client(kgo.DefaultProduceTopic("long"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(16<<10))
	filling := make([]byte, 1000)
	segments := many(t, "TIDEMARK_CHAOS_SEGMENTS", 200)
	records := segments * 64
	for range records {
		cl.Produce(t.Context(), &kgo.Record{Value: filling}, nil)
	}
	require.NoError(t, cl.Flush(t.Context()))
	leader := c.leader("long", 0)
	c.until(2*recovery+time.Duration(segments)*time.Second, "the history is tiered and freed", func() error {
		p, err := leader.Partition("long", 0)
		if err == nil && (int(p.Tiered) < records-200 || p.LocalBytes > 256<<10) {
			err = fmt.Errorf("tiered %d of %d, %d bytes on disk", p.Tiered, records, p.LocalBytes)
		}
		return err
	})
	was, err := leader.Partition("long", 0)
	require.NoError(t, err)
	c.reassign("long", []int32{int32(leader.id), int32(c.other(leader).id), int32(c.other(c.other(leader)).id)})
	took := c.until(recovery, "three replicas are in sync", func() error {
		ps, err := c.topic("long")
		if err == nil && len(ps[0].ISR) != 3 {
			err = fmt.Errorf("in sync: %v", ps[0].ISR)
		}
		return err
	})
	for _, m := range []*member{c.other(leader), c.other(c.other(leader))} {
		copied := m.Metric("tidemark_replication_fetched_bytes_total")
		require.Less(t, copied, float64(was.TierBytes)/10, "broker %d copied history", m.id)
		t.Logf("broker %d copied %.0f KiB of %d KiB in %v", m.id, copied/1024, (was.TierBytes+was.LocalBytes)/1024, took.Round(time.Millisecond))
	}
}
