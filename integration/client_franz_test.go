package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/checker"
	"tidemark/integration/harness"
)

// franz-go speaks the newest versions of everything: topic ids, fetch sessions, new admin calls.
func TestClientFranz(t *testing.T) {
	t.Parallel()
	n := harness.Dev(t, harness.Options{})
	coldTopic(t, n)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for number, codec := range codecs {
		t.Run(fmt.Sprintf("codec %d", number), func(t *testing.T) {
			topic := fmt.Sprintf("franz-%d", number)
			n.CreateTopic(t, topic, 1)
			franzFill(t, n, topic, 0, 100, kgo.ProducerBatchCompression(codec))
			judgeCodec(t, n, topic, int16(number))
		})
	}
	t.Run("group", func(t *testing.T) { franzGroup(t, n) })
	t.Run("time and cold", func(t *testing.T) { franzCold(t, n) })
	t.Run("admin", func(t *testing.T) { franzAdmin(t, n) })
}

func franzFill(t *testing.T, n *harness.Node, topic string, from, to int, opts ...kgo.Opt) {
	cl := n.Client(t, append(opts, kgo.ProducerLinger(20*time.Millisecond))...)
	var rs []*kgo.Record
	for i := from; i < to; i++ {
		rs = append(rs, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "%-200s", fmt.Sprintf("v%d", i))})
	}
	require.NoError(t, cl.ProduceSync(within(t, time.Minute), rs...).FirstErr())
}

// groupMember consumes and commits until it leaves.
type groupMember struct {
	client *kgo.Client
	done   chan struct{}
	mu     *sync.Mutex
	share  int
}

func joinGroup(t *testing.T, n *harness.Node, mu *sync.Mutex, seen map[string]int) *groupMember {
	m := &groupMember{done: make(chan struct{}), mu: mu}
	count := func(by int) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, parts map[string][]int32) {
			mu.Lock()
			defer mu.Unlock()
			m.share += by * len(parts["franz-group"])
		}
	}
	m.client = n.Client(t, kgo.ConsumerGroup("franz-g"), kgo.ConsumeTopics("franz-group"), kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.FetchMaxWait(200*time.Millisecond),
		kgo.OnPartitionsAssigned(count(1)), kgo.OnPartitionsRevoked(count(-1)), kgo.OnPartitionsLost(count(-1)))
	go func() {
		defer close(m.done)
		for {
			fs := m.client.PollFetches(context.Background())
			if fs.IsClientClosed() {
				return
			}
			mu.Lock()
			for _, r := range fs.Records() {
				seen[string(r.Key)]++
			}
			mu.Unlock()
			if err := m.client.CommitUncommittedOffsets(context.Background()); err != nil {
				t.Errorf("commit: %v", err)
			}
			m.client.AllowRebalance()
		}
	}()
	return m
}

func (m *groupMember) leave() {
	m.client.CloseAllowingRebalance()
	<-m.done
}

func franzGroup(t *testing.T, n *harness.Node) {
	n.CreateTopic(t, "franz-group", 4)
	var mu sync.Mutex
	seen := map[string]int{}
	a, b := joinGroup(t, n, &mu, seen), joinGroup(t, n, &mu, seen)
	until := func(what string, holds func() bool) {
		harness.Until(t, time.Minute, what, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !holds() {
				return fmt.Errorf("shares %d and %d, %d records", a.share, b.share, len(seen))
			}
			return nil
		})
	}
	until("two shares", func() bool { return a.share == 2 && b.share == 2 })
	franzFill(t, n, "franz-group", 0, 200)
	until("all records", func() bool { return len(seen) == 200 })
	b.leave()
	until("the share of the one that stayed", func() bool { return a.share == 4 })
	franzFill(t, n, "franz-group", 200, 300)
	until("all records after that", func() bool { return len(seen) == 300 })
	a.leave()
	for key, times := range seen {
		require.Equal(t, 1, times, "record %s", key)
	}
	committed, err := kadm.NewClient(n.Client(t)).FetchOffsets(t.Context(), "franz-g")
	require.NoError(t, err)
	sum := int64(0)
	for _, o := range committed.Sorted() {
		sum += max(o.At, 0)
	}
	require.EqualValues(t, 300, sum)
}

func franzCold(t *testing.T, n *harness.Node) {
	got, err := kadm.NewClient(n.Client(t)).ListOffsetsAfterMilli(t.Context(), coldStart.UnixMilli()+999_500, "cold")
	require.NoError(t, err)
	at, _ := got.Lookup("cold", 0)
	require.EqualValues(t, 1000, at.Offset)
	require.Equal(t, coldStart.UnixMilli()+1_000_000, at.Timestamp)
	records, err := checker.Read(within(t, time.Minute), n.Kafka, "cold", 0, 0, coldCount)
	require.NoError(t, err)
	require.Len(t, records, coldCount)
	for i, r := range records {
		require.Equal(t, fmt.Sprintf("cold-%06d", i), strings.TrimSpace(string(r.Value)))
		require.Equal(t, coldStart.Add(time.Duration(i)*time.Second).UnixMilli(), r.Timestamp.UnixMilli())
	}
}

func franzAdmin(t *testing.T, n *harness.Node) {
	adm := kadm.NewClient(n.Client(t))
	ctx := within(t, 2*time.Minute)
	n.CreateTopic(t, "franz-admin", 3, "retention.ms", "86400000")
	n.AlterTopic(t, "franz-admin", "retention.ms", "3600000")
	configs, err := adm.DescribeTopicConfigs(ctx, "franz-admin")
	require.NoError(t, err)
	config, err := configs.On("franz-admin", nil)
	require.NoError(t, err)
	for _, c := range config.Configs {
		if c.Key == "retention.ms" {
			require.Equal(t, "3600000", c.MaybeValue())
		}
	}
	grown, err := adm.UpdatePartitions(ctx, 4, "franz-admin")
	require.NoError(t, err)
	require.NoError(t, grown.Error())
	topics, err := adm.ListTopics(ctx, "franz-admin")
	require.NoError(t, err)
	require.Len(t, topics["franz-admin"].Partitions, 4)

	below := kadm.Offsets{}
	below.Add(kadm.Offset{Topic: "franz-0", Partition: 0, At: 50, LeaderEpoch: -1})
	deleted, err := adm.DeleteRecords(ctx, below)
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
	require.EqualValues(t, 50, n.Offset(t, "franz-0", 0, harness.Start))

	groups, err := adm.ListGroups(ctx)
	require.NoError(t, err)
	require.Contains(t, groups.Groups(), "franz-g")
	described, err := adm.DescribeGroups(ctx, "franz-g")
	require.NoError(t, err)
	require.Equal(t, "Empty", described["franz-g"].State)
	gone, err := adm.DeleteGroups(ctx, "franz-g")
	require.NoError(t, err)
	require.NoError(t, gone.Error())
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	disks := kmsg.NewPtrDescribeLogDirsRequest()
	disks.Version = 4
	resp, err := n.Raw(t).Do(disks)
	require.NoError(t, err)
	disk := resp.(*kmsg.DescribeLogDirsResponse).Dirs[0]
	require.Positive(t, disk.UsableBytes)
	require.Greater(t, disk.TotalBytes, disk.UsableBytes)
	n.DeleteTopic(t, "franz-admin")
	topics, err = kadm.NewClient(n.Client(t)).ListTopics(ctx) // a client of its own: this one has the topic in its cache
	require.NoError(t, err)
	require.NotContains(t, topics.Names(), "franz-admin")
}
