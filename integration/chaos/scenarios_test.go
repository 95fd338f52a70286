package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/netproxy"
	"tidemark/integration/rawclient"
	"tidemark/record"
)

// probe is a producer of one record at a time that speaks to one broker, whoever leads, and asks for acks=all.
type probe struct {
	w    *workload
	m    *member
	acks int // answers that said yes
	told map[string]int

	tries atomic.Int64 // requests that have come to their end
}

const probeID = 1000

// run writes to partition 0 until ctx ends. Its connection goes by the clients' proxy.
func (p *probe) run(ctx context.Context) {
	var conn *rawclient.Client
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	part := p.w.partition(0)
	for ctx.Err() == nil {
		<-pause.C
		if conn == nil {
			c, err := rawclient.Dial(ctx, p.m.clients.Addr())
			if err != nil {
				continue
			}
			conn = c
			conn.Timeout = 3 * time.Second
		}
		v := p.w.h.Sent(probeID, part)
		b := record.NewBuilder(record.BuilderOptions{})
		b.Add(time.Now().UnixMilli(), nil, fmt.Appendf(nil, "%d %d probe", v.Producer, v.Seq))
		resp, err := conn.Do(produceRequest(p.w.topic, b.Build()))
		if err != nil {
			_ = conn.Close()
			conn = nil
			p.told[err.Error()]++
			p.tries.Add(1)
			continue
		}
		p.tries.Add(1)
		rp := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
			p.told[err.Error()]++
			continue
		}
		p.acks++
		p.w.h.Acked(part, rp.BaseOffset, v, time.Now())
	}
}

func produceRequest(topic string, batch []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = batch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// H17: the leader loses the other brokers and Postgres but keeps its clients. The others elect; the old leader acknowledges
// nothing from then on, and is one of them again when the ways are free.
func TestH17_ALeaderCutOffWithItsClientsAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, options{})
	c.create("cut", 1, tiers...)
	w := c.work("cut", 1, usual)
	w.flows(recovery, "a healthy cluster takes records")
	old := c.leader("cut", 0)
	old.catalog.Freeze()
	c.isolate(old.id, drop)
	took := c.until(recovery, "another broker leads", func() error {
		ps, err := c.topicOf(c.other(old), "cut")
		if err == nil && (ps[0].Leader == int32(old.id) || ps[0].Leader < 0) {
			err = fmt.Errorf("leader %d", ps[0].Leader)
		}
		return err
	})
	ctx, stop := context.WithCancel(t.Context())
	p := &probe{w: w, m: old, told: map[string]int{}}
	done := make(chan struct{})
	go func() { defer close(done); p.run(ctx) }()
	c.during(6 * time.Second)
	c.until(recovery, "the probe is answered, or hears nothing", func() error {
		if p.tries.Load() == 0 {
			return errors.New("it has not been")
		}
		return nil
	})
	stop()
	<-done
	require.Zero(t, p.acks, "the old leader acknowledged records")
	require.NotEmpty(t, p.told)
	t.Logf("another broker leads after %v; the old one answered %v", took.Round(time.Millisecond), p.told)
	old.catalog.Thaw()
	c.isolate(old.id, netproxy.Rule{})
	w.end()
}

// topicOf asks one broker for a topic's partitions, past the proxies.
func (c *cluster) topicOf(m *member, topic string) (kadm.PartitionDetails, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 15*time.Second)
	defer cancel()
	conn, err := rawclient.Dial(ctx, m.Kafka)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	conn.Timeout = 15 * time.Second
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = &topic
	req.Topics = append(req.Topics, rt)
	resp, err := conn.Do(req)
	if err != nil {
		return nil, err
	}
	out := kadm.PartitionDetails{}
	for _, p := range resp.(*kmsg.MetadataResponse).Topics[0].Partitions {
		out[p.Partition] = kadm.PartitionDetail{Topic: topic, Partition: p.Partition, Leader: p.Leader, ISR: p.ISR, Replicas: p.Replicas}
	}
	return out, nil
}

// K3: Postgres is gone for a while. Produce and fetch go on all the time, and everything else when it is back.
func TestK3_ProduceAndFetchGoOnWithoutPostgres(t *testing.T) {
	t.Parallel()
	outage := setting(t, "TIDEMARK_CHAOS_OUTAGE", 8*time.Second)
	c := startCluster(t, options{})
	c.create("without", 4, tiers...)
	l := usual
	l.members = 0 // commits wait for Postgres
	w := c.work("without", 4, l)
	w.flows(recovery, "a healthy cluster takes records")
	c.spread("without")
	c.postgres.Kill(t)
	w.h.Silence(time.Now())
	for end := time.Now().Add(outage); time.Now().Before(end); {
		w.flows(recovery, "produce goes on without Postgres")
		for n := range w.partitions {
			p, before := w.partition(n), w.h.Reached("reader-0", w.partition(n))
			c.until(recovery, "fetch goes on without Postgres", func() error {
				if w.h.Reached("reader-0", p) == before {
					return fmt.Errorf("%s: nothing after %d", p, before)
				}
				return nil
			})
		}
	}
	t.Logf("%v without Postgres: longest silence %.2f s", outage, w.h.Silence(time.Now()).Seconds())
	c.postgres.Start(t)
	c.during(5 * time.Second)
	t.Logf("after it is back: longest silence %.2f s", w.h.Silence(time.Now()).Seconds())
	w.end()
}
