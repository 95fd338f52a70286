package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/rawclient"
)

// Timestamps of ListOffsets that are not times.
const (
	Latest        = -1
	Start         = -2
	MaxTimestamp  = -3
	LocalStart    = -4
	LatestTiered  = -5
	PendingUpload = -6
)

// Client is a franz-go client of the node that is closed with the test. It finds out about a restarted node quickly.
func (n *Node) Client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(n.Kafka), kgo.MetadataMinAge(100 * time.Millisecond), kgo.DialTimeout(5 * time.Second),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(time.Duration(tries)*50*time.Millisecond, 500*time.Millisecond)
		}),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.CloseAllowingRebalance)
	return cl
}

// Raw is a connection to the node that is closed with the test.
func (n *Node) Raw(t testing.TB) *rawclient.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := rawclient.Dial(ctx, n.Kafka)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// CreateTopic makes a topic; configs are name, value, name, value.
func (n *Node) CreateTopic(t testing.TB, topic string, partitions int32, configs ...string) {
	t.Helper()
	set := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		set[configs[i]] = &configs[i+1]
	}
	adm := kadm.NewClient(n.Client(t))
	Change(t, "create "+topic, kerr.TopicAlreadyExists, func() error {
		r, err := adm.CreateTopic(t.Context(), partitions, 1, set, topic)
		return errors.Join(err, told(r.Err, r.ErrMessage))
	})
}

// Change makes a change that a broker without processor time may answer with REQUEST_TIMED_OUT: then it may have been made,
// and is asked for again until it was, which made says.
func Change(t testing.TB, what string, made error, ask func() error) {
	t.Helper()
	again := false
	Until(t, 2*time.Minute, what, func() error {
		err := ask()
		switch {
		case err == nil || again && made != nil && errors.Is(err, made):
			return nil
		case !errors.Is(err, kerr.RequestTimedOut):
			t.Fatalf("%s: %v", what, err)
		}
		again = true
		return err
	})
}

func told(err error, message string) error {
	if err == nil || message == "" {
		return err
	}
	return fmt.Errorf("%w %s", err, message)
}

// DeleteTopic deletes a topic.
func (n *Node) DeleteTopic(t testing.TB, topic string) {
	t.Helper()
	adm := kadm.NewClient(n.Client(t))
	Change(t, "delete "+topic, kerr.UnknownTopicOrPartition, func() error {
		r, err := adm.DeleteTopic(t.Context(), topic)
		return errors.Join(err, told(r.Err, r.ErrMessage))
	})
}

// AlterTopic sets configs of a topic: name, value, name, value.
func (n *Node) AlterTopic(t testing.TB, topic string, configs ...string) {
	t.Helper()
	var set []kadm.AlterConfig
	for i := 0; i+1 < len(configs); i += 2 {
		set = append(set, kadm.AlterConfig{Op: kadm.SetConfig, Name: configs[i], Value: &configs[i+1]})
	}
	adm := kadm.NewClient(n.Client(t))
	Change(t, "alter "+topic, nil, func() error {
		rs, err := adm.AlterTopicConfigs(t.Context(), set, topic)
		for _, r := range rs {
			err = errors.Join(err, told(r.Err, r.ErrMessage))
		}
		return err
	})
}

// OffsetAt is what ListOffsets answers for one partition; at is a time in milliseconds or one of the constants above.
type OffsetAt struct {
	Offset    int64
	Timestamp int64
	Epoch     int32
}

// ListOffsets asks for many times at once, each on its own (Kafka answers one time a partition and request). version
// -1 is the newest.
func (n *Node) ListOffsets(t testing.TB, topic string, partition int32, version int16, at ...int64) ([]OffsetAt, error) {
	t.Helper()
	c := n.Raw(t)
	defer c.Close()
	if version < 0 {
		version = 10
	}
	out := make([]OffsetAt, 0, len(at))
	for _, ts := range at {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = version, -1
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp = partition, ts
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic, rt.Partitions = topic, append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		kresp, err := c.Do(req)
		if err != nil {
			return nil, err
		}
		resp := kresp.(*kmsg.ListOffsetsResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
			return nil, errors.New("ListOffsets did not answer for the one partition")
		}
		rp := resp.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(rp.ErrorCode); err != nil {
			return nil, fmt.Errorf("ListOffsets %d: %w", ts, err)
		}
		out = append(out, OffsetAt{rp.Offset, rp.Timestamp, rp.LeaderEpoch})
	}
	return out, nil
}

// Offset is ListOffsets for one time that must be answered.
func (n *Node) Offset(t testing.TB, topic string, partition int32, at int64) int64 {
	t.Helper()
	got, err := n.ListOffsets(t, topic, partition, -1, at)
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Offset
}
