package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/integration/harness"
	"tidemark/integration/s3proxy"
)

// B22: a broker that has nothing of a partition on its disk answers for offsets and times as the one that had it all.
func TestB22_TimesAndOffsetsWithoutALocalLog(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	tens(t, n, "b22", 1)
	produceTens(t, n, "b22", 0, 60)
	tiered(t, n, "b22", 49)
	at := []int64{harness.Start, harness.LatestTiered}
	for i := range 50 {
		at = append(at, tenTime(i).UnixMilli(), tenTime(i).UnixMilli()-1)
	}
	want, err := n.ListOffsets(t, "b22", 0, -1, at...)
	require.NoError(t, err)
	n.Kill()
	n.Wipe()
	n.Start()
	require.EqualValues(t, 50, n.Offset(t, "b22", 0, harness.LocalStart), "the disk has nothing of it")
	got, err := n.ListOffsets(t, "b22", 0, -1, at...)
	require.NoError(t, err)
	for i := range want {
		require.Equal(t, want[i].Offset, got[i].Offset, "asked for %d", at[i])
		require.Equal(t, want[i].Timestamp, got[i].Timestamp, "asked for %d", at[i])
	}
}

// H36: a fetch of nine hot partitions and a cold one whose bucket says nothing: the hot ones are answered, again and again on
// the same connection, and a produce behind them too; the cold one joins when its bucket speaks.
func TestH36_HotPartitionsDoNotWaitForACold(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	n := harness.Serve(t, stores, harness.Options{})
	coldTens(t, n, "cold", 31)
	hot := make([]string, 9)
	for i := range hot {
		hot[i] = fmt.Sprint("hot-", i)
		n.CreateTopic(t, hot[i], 1, "retention.ms", "-1")
		produceTens(t, n, hot[i], 0, 3)
	}
	stores.S3.Add(s3proxy.Rule{Match: getSegment, Hang: true})
	req := fetchAt("cold", 0, 0, 500)
	for _, topic := range hot {
		req.Topics = append(req.Topics, fetchAt(topic, 0, 0, 0).Topics...)
	}
	c := n.Raw(t)
	for range 5 {
		resp, err := c.Do(req)
		require.NoError(t, err)
		for _, topic := range resp.(*kmsg.FetchResponse).Topics {
			p := topic.Partitions[0]
			require.Zero(t, p.ErrorCode, topic.Topic)
			require.Equal(t, topic.Topic == "cold", len(p.RecordBatches) == 0, topic.Topic)
		}
		require.Zero(t, produceRaw(t, c, 9, hot[0], oneRecord(-1, -1, "behind")).ErrorCode)
	}
	stores.S3.Clear()
	harness.Until(t, time.Minute, "the cold one joins", func() error {
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		for _, topic := range resp.(*kmsg.FetchResponse).Topics {
			if topic.Topic == "cold" && len(topic.Partitions[0].RecordBatches) > 0 {
				return nil
			}
		}
		return errors.New("it is not in the answer")
	})
}

// K1: whatever happens to the connections by which brokers hear of changes, cut or dead without a word, each change is seen.
func TestK1_ChangesAreSeenWhateverHappensToConnections(t *testing.T) {
	t.Parallel()
	stores := harness.RealStores(t)
	nodes := serveCluster(t, stores, 2, map[string]string{"TIDEMARK_AUTO_CREATE_TOPICS": "false"})
	for i, happens := range []func(){func() {}, stores.PG.Reset, stores.PG.Strand} {
		happens()
		topic := fmt.Sprint("k1-", i)
		harness.Until(t, time.Minute, "the topic is made", func() error {
			_, diag, code := nodes[0].Tool("topic", "create", topic, "--replicas", "1")
			if names, err := nodes[0].Topics(); code != 0 && (err != nil || len(names) <= i) {
				return errors.New(diag)
			}
			return nil
		})
		harness.Until(t, time.Minute, "the other broker has seen it", func() error {
			names, err := nodes[1].Topics()
			if err == nil && len(names) != i+1 {
				err = fmt.Errorf("%d topics", len(names))
			}
			return err
		})
	}
}
