package partition_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
)

func TestThreeReplicasHoldWhatIsAcknowledged(t *testing.T) {
	w := newWorld(t, 3)
	w.create(nil)
	w.nodes[1].write(values(0, 50)...)
	w.sameLogs()
	for _, n := range w.nodes {
		require.Equal(t, numbered(0, values(0, 50)), n.consume(0), "broker %d serves what is committed (KIP-392)", n.id)
	}
	r := w.nodes[2].produce(partition.AcksAll, time.Second, batch("x"))
	require.Equal(t, kerr.NotLeaderForPartition.Code, r.ErrorCode)
}

func TestR17_AckWaitsForEveryInSyncReplica(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "2"})
	one, three := w.nodes[1], w.nodes[3]
	one.write("v0")
	three.kill()
	r := one.produce(partition.AcksAll, 100*time.Millisecond, batch("v1"))
	require.Equal(t, kerr.RequestTimedOut.Code, r.ErrorCode, "3 is in sync and does not answer")
	one.takesOut(3)
	one.write("v2")
	require.Equal(t, numbered(0, values(0, 3)), one.consume(0))

	w.nodes[2].kill()
	one.scribble("v3")
	one.takesOut(2)
	require.Equal(t, catalog.BrokerID(2), w.row().ELR[0].Broker)
	r = one.produce(partition.AcksAll, patience, batch("v4"))
	require.Equal(t, kerr.NotEnoughReplicas.Code, r.ErrorCode)
	require.Equal(t, record.Offset(4), one.end(), "nothing was appended")
	require.Equal(t, record.Offset(3), one.hw(), "H6: the high watermark stands still below min.insync.replicas")

	w.nodes[2].back()
	w.nodes[3].back()
	w.until(func() bool { return len(w.row().ISR) == 3 && one.hw() == 4 }, "both are back")
	w.sameLogs()
}

// A follower that has everything is asked for nothing while nothing is written, for longer than replica.lag.time.max.ms: that
// it is there is enough for the first record after that to find it in sync (P11, E5).
func TestP11_AnIdleFollowerIsInSyncWhenTheNextRecordComes(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"min.insync.replicas": "1"})
	w.nodes[1].write("v0")
	w.settled()
	version := w.row().Version
	w.nodes[1].takesOut() // nobody
	w.nodes[1].write("v1")
	w.settled()
	require.Equal(t, version, w.row().Version, "nobody was taken out, not even for a moment")
	w.nodes[2].kill()
	w.nodes[1].scribble("v2")
	w.nodes[1].takesOut(2)
}

func TestNotEnoughReplicasAfterAppend(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"min.insync.replicas": "2"})
	w.nodes[2].kill()
	answer := make(chan int16, 1)
	go func() { answer <- w.nodes[1].produce(partition.AcksAll, patience, batch("v0")).ErrorCode }()
	w.until(func() bool { return w.nodes[1].end() == 1 }, "appended")
	w.nodes[1].lag(2)
	require.Equal(t, kerr.NotEnoughReplicasAfterAppend.Code, <-answer)
}

func TestH7_NothingIsShrunkWhileTheCatalogIsAway(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "1"})
	one := w.nodes[1]
	one.write("v0")
	one.catalog.away.Store(true)
	one.write("v1", "v2") // goes on with the row that it has
	w.nodes[2].kill()
	w.nodes[3].kill()
	r := one.produce(partition.AcksAll, 100*time.Millisecond, batch("v3"))
	require.Equal(t, kerr.RequestTimedOut.Code, r.ErrorCode)
	one.lag(2, 3)
	w.until(func() bool { return one.catalog.missed.Load() > 1 }, "it would shrink, again and again")
	require.Len(t, w.row().ISR, 3)
	require.Equal(t, record.Offset(3), one.hw())
	one.catalog.away.Store(false)
	w.until(func() bool { return one.hw() == 4 }, "it shrinks in the catalog, then counts alone")
	require.Len(t, w.row().ISR, 1)
}

func TestH7_ALostAnswerKeepsBothSets(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "1"})
	one := w.nodes[1]
	one.catalog.deaf.Store(true)
	w.nodes[3].kill()
	one.scribble("v0")
	one.lag(3)
	w.until(func() bool { return len(w.row().ISR) == 2 }, "the change is made, its answer lost")
	w.until(func() bool { return one.hw() == 1 }, "the row is pulled")
}

func TestH11_AWaitBelongsToItsEpoch(t *testing.T) {
	w := newWorld(t, 3)
	w.create(nil)
	w.nodes[1].write("v0")
	w.nodes[2].cut.Store(w.nodes[1].addr, true)
	w.nodes[3].kill()
	w.nodes[2].kill()
	w.nodes[2].back() // cannot reach 1 any more
	answer := make(chan int16, 1)
	go func() { answer <- w.nodes[1].produce(partition.AcksAll, patience, batch("lost")).ErrorCode }()
	w.until(func() bool { return w.nodes[1].end() == 2 }, "appended")
	w.elect(2, 2, 1)
	require.Equal(t, kerr.NotLeaderForPartition.Code, <-answer)
	w.nodes[3].back()
	w.until(func() bool { return len(w.row().ISR) == 3 }, "all follow 2")
	w.nodes[2].write("kept")
	w.sameLogs()
	require.Equal(t, []string{"0:v0", "1:kept"}, w.nodes[1].consume(0))
}

func TestH11_ADuplicateIsAnsweredWithTheOriginal(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"min.insync.replicas": "2"})
	w.nodes[2].kill()
	b := idempotent(7, 0, "v0")
	done := make(chan int16, 2)
	for range 2 {
		go func() { done <- w.nodes[1].produce(partition.AcksAll, 150*time.Millisecond, b).ErrorCode }()
	}
	for range 2 {
		require.Equal(t, kerr.RequestTimedOut.Code, <-done, "the original is not replicated, so the duplicate is not either")
	}
	require.Equal(t, record.Offset(1), w.nodes[1].end())
}

// idempotent is one record of a producer.
func idempotent(id int64, sequence int32, value string) []byte {
	b := record.NewBuilder(record.BuilderOptions{Producer: &record.Producer{ID: id, Epoch: 0, BaseSequence: sequence}})
	b.Add(1000, nil, []byte(value))
	return b.Build()
}

// asReplica makes a fetch say that it comes from a replica.
func asReplica(m catalog.Member, epoch record.Epoch) func(*kmsg.FetchRequest) {
	return func(r *kmsg.FetchRequest) {
		r.ReplicaState.ID, r.ReplicaState.Epoch = int32(m.Broker), int64(m.Incarnation)
		r.Topics[0].Partitions[0].CurrentLeaderEpoch = int32(epoch)
	}
}

func TestH29_OnlyTheRegisteredIncarnationIsAReplica(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "2"})
	one := w.nodes[1]
	one.write("v0")
	w.nodes[2].kill()
	w.nodes[3].kill()
	one.scribble("v1", "v2")
	stray := catalog.Member{Broker: 2, Incarnation: w.nodes[2].inc + 1}
	r := one.fetch(3, asReplica(stray, 0))
	require.Zero(t, r.ErrorCode, "it is a consumer at the end")
	r = one.fetch(1, asReplica(stray, 0))
	require.Empty(t, r.RecordBatches, "a consumer sees nothing above the high watermark")
	require.Equal(t, record.Offset(1), one.hw())

	r = one.fetch(1, asReplica(w.nodes[2].member(), 0))
	require.NotEmpty(t, r.RecordBatches, "a replica reads to the end")
	r = one.fetch(3, asReplica(w.nodes[3].member(), -1))
	require.Equal(t, kerr.FencedLeaderEpoch.Code, r.ErrorCode, "a replica that names no epoch may not have been cut")
	r = one.fetch(4, asReplica(w.nodes[3].member(), 0))
	require.Equal(t, kerr.OffsetOutOfRange.Code, r.ErrorCode)
	require.Equal(t, record.Offset(1), one.hw())
	one.fetch(3, asReplica(w.nodes[2].member(), 0))
	one.fetch(3, asReplica(w.nodes[3].member(), 0))
	require.Equal(t, record.Offset(3), one.hw(), "what they prove counts")
	// Last, since a leader that hears of a higher epoch doubts its own until it has asked the catalog (H17).
	r = one.fetch(3, asReplica(w.nodes[3].member(), 7))
	require.Equal(t, kerr.UnknownLeaderEpoch.Code, r.ErrorCode)
}

func TestH24_ANewLeadersEndWaitsForItsEpoch(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "2"})
	w.nodes[1].write(values(0, 5)...)
	w.settled()
	w.nodes[3].kill()
	w.nodes[1].scribble("v5", "v6")
	w.until(func() bool { return w.nodes[2].end() == 7 }, "2 has what is not committed")
	w.nodes[1].kill()
	w.elect(2, 2, 1, 3)
	two := w.nodes[2]
	require.Equal(t, record.Offset(5), two.hw())
	list := func(version int16, ts int64) kmsg.ListOffsetsResponseTopicPartition {
		req := kmsg.NewPtrListOffsetsRequest()
		lt := kmsg.NewListOffsetsRequestTopic()
		lt.Topic = w.topic.Name
		lp := kmsg.NewListOffsetsRequestTopicPartition()
		lp.Timestamp = ts
		lt.Partitions = append(lt.Partitions, lp)
		req.Topics = append(req.Topics, lt)
		return ask[*kmsg.ListOffsetsResponse](two, version, req).Topics[0].Partitions[0]
	}
	for _, ts := range []int64{-1, -3, 500} {
		require.Equal(t, kerr.OffsetNotAvailable.Code, list(8, ts).ErrorCode, "timestamp %d", ts)
	}
	require.Equal(t, kerr.LeaderNotAvailable.Code, list(4, -1).ErrorCode)
	require.Zero(t, list(8, -2).ErrorCode, "the start is known")
	require.Empty(t, two.fetch(6, nil).RecordBatches, "between hw and end: empty")
	require.Zero(t, two.fetch(6, nil).ErrorCode)
	require.Equal(t, kerr.OffsetOutOfRange.Code, two.fetch(8, nil).ErrorCode)
	w.nodes[3].back()
	two.takesOut(1)
	w.until(func() bool { return two.hw() == 7 }, "3 has it, 1 is taken out")
	require.Equal(t, int64(7), list(8, -1).Offset)
}

func TestKIP392_AConsumerIsSentToItsRack(t *testing.T) {
	w := newWorld(t, 3)
	w.create(nil)
	w.nodes[1].write(values(0, 10)...)
	w.settled()
	inRack := func(rack string) func(*kmsg.FetchRequest) {
		return func(r *kmsg.FetchRequest) { r.Rack = rack }
	}
	require.Equal(t, int32(3), w.nodes[1].fetch(0, inRack("rack3")).PreferredReadReplica)
	require.Empty(t, w.nodes[1].fetch(0, inRack("rack3")).RecordBatches)
	require.Equal(t, int32(-1), w.nodes[1].fetch(0, inRack("rack1")).PreferredReadReplica)
	require.Equal(t, int32(-1), w.nodes[1].fetch(0, inRack("elsewhere")).PreferredReadReplica)
	r := w.nodes[3].fetch(0, inRack("rack3"))
	require.NotEmpty(t, r.RecordBatches)
	require.Equal(t, int64(10), r.HighWatermark)
	require.Equal(t, kerr.OffsetNotAvailable.Code, w.nodes[3].fetch(11, inRack("rack3")).ErrorCode)
	w.nodes[3].kill()
	w.nodes[1].scribble("x")
	w.nodes[1].takesOut(3)
	require.Equal(t, int32(-1), w.nodes[1].fetch(0, inRack("rack3")).PreferredReadReplica)
}

func TestManyBatchesAcrossSegments(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"segment.bytes": "1048576", "remote.storage.enable": "false"})
	big := strings.Repeat("x", 100_000)
	for range 40 {
		require.Zero(t, w.nodes[1].produce(1, patience, batch(big)).ErrorCode)
	}
	w.sameLogs()
}

func TestH17_ALeaderThatLostTheCatalogAloneIsTold(t *testing.T) {
	w := newWorld(t, 3)
	w.create(map[string]string{"min.insync.replicas": "1"})
	one := w.nodes[1]
	one.write("v0")
	one.catalog.away.Store(true)
	one.write("v1")
	w.elect(2, 2, 3) // the lease of 1 ran out
	w.until(func() bool {
		return one.produce(1, time.Second, batch("x")).ErrorCode == kerr.NotLeaderForPartition.Code
	}, "1 knows")
	require.Equal(t, kerr.NotLeaderForPartition.Code, one.fetch(0, nil).ErrorCode)
	w.until(func() bool { return one.set.Offline()[w.id()] != nil }, "and leaves itself out of Metadata")
	require.NotEqual(t, record.NoEpoch, one.part().LeaderEpoch())
	w.nodes[2].write("v2")
	one.catalog.away.Store(false)
	w.until(func() bool { return len(w.row().ISR) == 3 }, "1 follows")
	w.sameLogs()
	require.Equal(t, numbered(0, values(0, 3)), one.consume(0)[:3])
}

func TestH17_AFalseAlarmCostsALookAtTheCatalog(t *testing.T) {
	w := newWorld(t, 2)
	w.create(map[string]string{"min.insync.replicas": "1"})
	one := w.nodes[1]
	one.write("v0")
	one.part().HeardOf(99)
	w.until(func() bool { return one.produce(-1, patience, batch("v1")).ErrorCode == 0 }, "1 leads on")
	require.Equal(t, record.Epoch(0), one.part().LeaderEpoch())
}

// The partition resigns, and only it: the broker goes on with what it has besides.
func TestH28_APartitionWhoseLogFailedResigns(t *testing.T) {
	w := newWorld(t, 3)
	w.create(nil)
	one, two := w.nodes[1], w.nodes[2]
	one.write("v0")
	one.part().BreakLog()
	w.until(func() bool {
		row := w.row()
		return row.Leader == catalog.NoBroker && len(row.ISR) == 2 && len(row.ELR) == 0
	}, "broker 1 is out of leadership and sets")
	w.elect(2, 2, 3)
	w.until(func() bool { return two.produce(-1, patience, batch("v1")).ErrorCode == 0 }, "2 leads")
	w.until(func() bool { return errors.Is(one.set.Offline()[w.id()], hotlog.ErrFailed) }, "it is told that the partition is not served")
	require.Equal(t, []catalog.PartitionID{w.id()}, one.set.Failed())
	require.Equal(t, record.NoEpoch, one.part().LeaderEpoch())
	select {
	case err := <-one.ended:
		t.Fatalf("the broker has ended: %v", err)
	default:
	}

	two.part().BreakLog() // a second one: the last in-sync replica but one
	w.until(func() bool { return len(w.row().ISR) == 1 && w.row().Leader == catalog.NoBroker }, "broker 2 resigns too")
	w.elect(3, 3)
	three := w.nodes[3]
	w.until(func() bool { return three.part().LeaderEpoch() != record.NoEpoch }, "3 leads")
	three.part().BreakLog()
	before := w.row()
	three.set.Resign(t.Context())
	require.Equal(t, before, w.row(), "nobody else has its records: it keeps its place")

	one.kill()
	data, err := hotlog.OpenDataDir(hotlog.DataDirOptions{Path: one.dir})
	require.NoError(t, err)
	_, may := data.MayKeepIncarnation()
	require.False(t, may, "its next life is another")
	require.NoError(t, data.Close())
}
