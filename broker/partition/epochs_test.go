package partition_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
	"tidemark/record"
)

// small makes ten one-record batches a segment, as cases.md has it; local logs are freed as soon as they may be.
func small(more ...string) map[string]string {
	c := map[string]string{
		"segment.bytes": segmentOfTen, "local.retention.bytes": "1", "retention.ms": "-1", "message.timestamp.before.max.ms": "9223372036854775807",
	}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

// keep is small with everything kept on local disks.
func keep(more ...string) map[string]string {
	return small(append([]string{"local.retention.bytes", "-1", "local.retention.ms", "-1"}, more...)...)
}

const segmentOfTen = "780"

// lose cuts the newest segment of a killed broker's log to n batches, as a power cut may.
func (n *node) lose(segment record.Offset, batches int) {
	n.Helper()
	require.False(n, n.up)
	name := filepath.Join(n.data.Path(n.topic.ID, 0), nameOf(segment))
	b, err := os.ReadFile(name)
	require.NoError(n, err)
	kept := 0
	for range batches {
		one, _, err := record.Split(b[kept:])
		require.NoError(n, err)
		kept += len(one)
	}
	require.NoError(n, os.Truncate(name, int64(kept)))
	for _, gone := range []string{"recovery-point"} {
		if err := os.Remove(filepath.Join(n.data.Path(n.topic.ID, 0), gone)); !errors.Is(err, fs.ErrNotExist) {
			require.NoError(n, err)
		}
	}
}

// wipe empties a killed broker's disk.
func (n *node) wipe() {
	n.Helper()
	require.False(n, n.up)
	// The dead one's flushes of sealed segments may still be on their way to the disk.
	n.until(func() bool { return os.RemoveAll(n.dir) == nil }, "the disk is emptied")
}

// epochEnd asks where an epoch ended.
func (n *node) epochEnd(epoch record.Epoch) (record.Epoch, record.Offset) {
	n.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = n.topic.Name
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.LeaderEpoch, rp.CurrentLeaderEpoch = int32(epoch), -1
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	a := ask[*kmsg.OffsetForLeaderEpochResponse](n, 4, req).Topics[0].Partitions[0]
	require.Zero(n, a.ErrorCode)
	return record.Epoch(a.LeaderEpoch), record.Offset(a.EndOffset)
}

// tiered waits until the tier holds everything below o.
func (w *world) tiered(o record.Offset) {
	w.Helper()
	w.until(func() bool { return w.row().Tiered >= o }, "tiered to %d", o)
}

// freed waits until a broker's log begins at o.
func (n *node) freed(o record.Offset) {
	n.Helper()
	n.until(func() bool { return n.part().Offsets().LocalStart >= o }, "broker %d frees below %d", n.id, o)
}

func nameOf(o record.Offset) string { return leftPad(o) + ".log" }

func leftPad(o record.Offset) string {
	s := []byte("00000000000000000000")
	for i := len(s) - 1; o > 0; i-- {
		s[i] = byte('0' + o%10)
		o /= 10
	}
	return string(s)
}

func TestE1_LogsAgreeAfterFastFailovers(t *testing.T) {
	w := newWorld(t, 2)
	w.create(keep("min.insync.replicas", "1"))
	a, b := w.nodes[1], w.nodes[2]
	a.write(values(0, 10)...)
	w.settled()
	b.kill()
	a.scribble("ten", "eleven") // epoch 0, only here
	a.kill()
	b.back()
	w.elect(2, 2)
	b.write("x") // epoch 1, at 10
	b.kill()
	a.back()
	w.elect(1, 1) // unclean, with 10 and 11 of epoch 0
	a.write("y")
	b.back()
	w.until(func() bool { return len(w.row().ISR) == 2 }, "b is in sync")
	w.sameLogs()
	require.Equal(t, append(numbered(0, values(0, 10)), "10:ten", "11:eleven", "12:y"), b.consume(0))
}

func TestE4_AFollowerAheadOfItsLeader(t *testing.T) {
	w := newWorld(t, 2)
	w.create(keep("min.insync.replicas", "1"))
	one, two := w.nodes[1], w.nodes[2]
	one.write(values(0, 30)...)
	w.settled()
	two.kill()
	one.scribble(values(30, 50)...)
	one.kill()
	two.back()
	w.elect(2, 2) // unclean
	one.back()
	w.until(func() bool { return one.end() == two.end() && len(w.row().ISR) == 2 }, "the follower is cut and in sync")
	two.write("v30")
	w.sameLogs()
}

func TestE5_HighWatermarkIsNeverBelowTheTier(t *testing.T) {
	w := newWorld(t, 3)
	w.create(small("min.insync.replicas", "2"))
	for from := 0; from < 90; from += 10 {
		w.nodes[1].write(values(from, from+10)...)
	}
	w.tiered(80)
	w.nodes[2].freed(80)
	for _, n := range w.nodes {
		n.kill()
		_ = os.Remove(filepath.Join(n.dir, "high-watermarks"))
	}
	w.nodes[2].back()
	require.GreaterOrEqual(t, w.nodes[2].hw(), record.Offset(80))
	w.nodes[1].back()
	w.nodes[3].back()
	w.elect(2, 1, 2, 3)
	require.GreaterOrEqual(t, w.nodes[2].hw(), record.Offset(80))
	w.nodes[2].write("v90")
	require.Equal(t, numbered(0, values(0, 91)), w.nodes[2].consume(0))
}

func TestE6_AWipedBrokerIsNotInSync(t *testing.T) {
	w := newWorld(t, 3)
	w.create(keep("min.insync.replicas", "2"))
	w.nodes[1].write(values(0, 5)...)
	w.nodes[3].kill()
	w.nodes[1].scribble("v5")
	w.nodes[1].takesOut(3)
	two := w.nodes[2]
	two.kill()
	two.wipe()
	two.cut.Store(w.nodes[1].addr, true) // before it caught up …
	two.reborn()
	require.Equal(t, []catalog.Member{w.nodes[1].member()}, w.row().ISR)
	w.nodes[1].kill() // … 1 dies
	rows, err := w.store.Elect(t.Context(), w.boss, []catalog.Election{{
		ID: w.id(), Leader: 2, ISR: []catalog.Member{{Broker: 2, Incarnation: two.inc - 1}}, IfVersion: w.row().Version,
	}})
	require.NoError(t, err)
	require.Empty(t, rows)
	require.Equal(t, record.Offset(0), two.end())
	require.Equal(t, record.NoEpoch, two.part().LeaderEpoch())
	w.nodes[1].back()
	two.cut.Clear()
	w.elect(1, 1)
	w.until(func() bool { return len(w.row().ISR) >= 2 }, "2 has everything again")
	w.nodes[3].back()
	w.sameLogs()
	require.Equal(t, numbered(0, values(0, 6)), two.consume(0))
}

func TestE9_AFollowerThatLostItsTail(t *testing.T) {
	w := newWorld(t, 3)
	w.create(keep("min.insync.replicas", "2"))
	w.nodes[1].write(values(0, 8)...)
	w.settled()
	two := w.nodes[2]
	two.kill()
	two.lose(0, 3)
	two.reborn()
	w.pull()
	w.until(func() bool { return two.end() == 8 && len(w.row().ISR) == 3 }, "it is sent again what it lost, nobody writes")
	require.Equal(t, record.Offset(8), w.nodes[1].hw(), "an idle partition reaches its end")
	w.sameLogs()
}

func TestE11_EpochsOlderThanTheLocalLog(t *testing.T) {
	w := newWorld(t, 2)
	w.create(small("min.insync.replicas", "1"))
	w.nodes[1].write(values(0, 10)...)
	w.settled()
	w.elect(2, 1, 2)
	w.nodes[2].write(values(10, 20)...)
	w.settled()
	w.elect(1, 1, 2)
	w.nodes[1].write(values(20, 31)...)
	w.tiered(20)
	w.nodes[1].freed(20)
	e, end := w.nodes[1].epochEnd(0)
	require.Equal(t, [2]int64{0, 10}, [2]int64{int64(e), int64(end)})
	e, end = w.nodes[1].epochEnd(1)
	require.Equal(t, [2]int64{1, 20}, [2]int64{int64(e), int64(end)})
}

func TestE12_AnUncleanLeaderBeginsWhereTheTierEnds(t *testing.T) {
	w := newWorld(t, 2)
	w.create(keep("min.insync.replicas", "1", "unclean.leader.election.enable", "true"))
	one, two := w.nodes[1], w.nodes[2]
	one.write(values(0, 50)...)
	w.settled()
	two.kill()
	one.scribble(values(50, 100)...)
	one.takesOut(2)
	w.tiered(90) // what is not sealed stays
	one.kill()
	tiered := w.row().Tiered
	two.back()
	w.elect(2, 2)
	require.Equal(t, tiered, two.part().Offsets().LocalStart, "it begins where the tier ends, not at 50")
	two.write("new")
	require.Equal(t, append(numbered(0, values(0, int(tiered))), numbered(int(tiered), []string{"new"})...), two.consume(0))
	one.back()
	w.until(func() bool { return len(w.row().ISR) == 2 }, "1 is in sync")
	w.settled()
	require.Equal(t, append(numbered(0, values(0, int(tiered))), numbered(int(tiered), []string{"new"})...), one.consume(0))
	w.noOverlap()
}

// noOverlap demands live rows that join each other from start to tiered.
func (w *world) noOverlap() {
	w.Helper()
	rows, err := w.store.ListSegments(w.Context(), w.id(), 0, 1000)
	require.NoError(w, err)
	next := record.Offset(0)
	for _, s := range rows {
		require.Equal(w, next, s.Base)
		next = s.Next
	}
	require.Equal(w, w.row().Tiered, next)
}

func TestE13_AnEmptyReplicaKnowsWhatTheTierKnows(t *testing.T) {
	w := newWorld(t, 3)
	w.createOn(small("min.insync.replicas", "1"), []catalog.BrokerID{1, 2})
	w.until(func() bool { return len(w.row().ISR) == 2 }, "in sync")
	for seq := range int32(100) {
		require.Zero(t, w.nodes[1].produce(-1, patience, idempotent(4711, seq, values(int(seq), int(seq)+1)[0])).ErrorCode)
	}
	w.nodes[1].write("v100") // seals
	w.until(func() bool { return w.row().Tiered >= 80 }, "tiered")
	w.nodes[1].freed(80)
	w.nodes[2].kill()
	w.nodes[2].wipe()
	w.nodes[2].reborn()
	w.pull()
	two := w.nodes[2]
	w.until(func() bool { return len(w.row().ISR) == 2 }, "the emptied one is in sync")
	require.GreaterOrEqual(t, two.part().Offsets().LocalStart, record.Offset(80), "it copied only what is hot")
	w.elect(2, 2, 1)
	r := two.produce(-1, patience, idempotent(4711, 99, "v99"))
	require.Zero(t, r.ErrorCode)
	require.Equal(t, int64(99), r.BaseOffset, "a duplicate, with its old offset")
	r = two.produce(-1, patience, idempotent(4711, 100, "v101"))
	require.Zero(t, r.ErrorCode)
	require.Equal(t, int64(101), r.BaseOffset)
	e, end := two.epochEnd(0)
	require.Equal(t, [2]int64{0, 101}, [2]int64{int64(e), int64(end)})
	require.Equal(t, numbered(0, values(0, 102)), two.consume(0))
}

func TestH8_TheTierWinsOverALongerDivergedLog(t *testing.T) {
	w := newWorld(t, 2)
	w.create(keep("min.insync.replicas", "1", "unclean.leader.election.enable", "true"))
	a, b := w.nodes[1], w.nodes[2]
	a.write(values(0, 25)...)
	w.settled()
	w.elect(2, 2, 1)
	a.kill()
	for i := range 40 {
		b.scribble("tail" + values(i, i+1)[0]) // epoch 1, only here; nobody is promised them
	}
	b.kill()
	a.back()
	w.elect(1, 1) // unclean
	a.write(values(25, 52)...)
	w.tiered(50)
	a.kill()
	tiered := w.row().Tiered
	b.back()
	w.elect(2, 2) // unclean, with a log that is longer than the tier and another
	require.Equal(t, tiered, b.end())
	b.write("after")
	require.Equal(t, append(numbered(0, values(0, int(tiered))), numbered(int(tiered), []string{"after"})...), b.consume(0))
	w.noOverlap()
}

func TestH23_BelowTheLeadersLogAReplicaBeginsAtTheTier(t *testing.T) {
	w := newWorld(t, 2)
	w.create(small("min.insync.replicas", "1"))
	one, two := w.nodes[1], w.nodes[2]
	one.write(values(0, 15)...)
	w.settled()
	two.kill()
	one.scribble(values(15, 85)...)
	one.takesOut(2)
	w.tiered(80)
	one.freed(80)
	two.back()
	w.until(func() bool { return len(w.row().ISR) == 2 }, "2 is in sync")
	w.settled()
	require.GreaterOrEqual(t, two.part().Offsets().LocalStart, record.Offset(80))
	require.Equal(t, numbered(0, values(0, 85)), two.consume(0))
}

func TestD15_StartMovesPastAReplica(t *testing.T) {
	w := newWorld(t, 2)
	w.create(keep("min.insync.replicas", "1"))
	one, two := w.nodes[1], w.nodes[2]
	one.write(values(0, 15)...)
	w.settled()
	two.kill()
	one.scribble(values(15, 45)...)
	one.takesOut(2)
	w.until(func() bool { return one.hw() == 45 }, "alone")
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = w.topic.Name
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Offset = 33
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	require.Zero(t, ask[*kmsg.DeleteRecordsResponse](one, 2, req).Topics[0].Partitions[0].ErrorCode)
	two.back()
	w.until(func() bool { return len(w.row().ISR) == 2 }, "2 is in sync")
	w.settled()
	require.Equal(t, numbered(33, values(33, 45)), two.consume(33))
}

func TestA4_AnyReplicaTakesUploadsOver(t *testing.T) {
	w := newWorld(t, 2)
	w.create(keep("min.insync.replicas", "1"))
	one, two := w.nodes[1], w.nodes[2]
	two.kill()
	one.scribble(values(0, 13)...) // rolls at 10
	one.takesOut(2)
	two.back()
	two.kill()
	two.wipe() // and begins somewhere else
	two.reborn()
	w.pull()
	w.until(func() bool { return len(w.row().ISR) == 2 }, "in sync")
	for from := 13; from < 60; from++ {
		lead := catalog.BrokerID(1 + from%2)
		if from%9 == 0 {
			w.elect(lead, 1, 2)
		}
		w.nodes[w.row().Leader].write(values(from, from+1)...)
	}
	w.settled()
	w.tiered(50)
	w.noOverlap()
	require.Equal(t, numbered(0, values(0, 60)), w.nodes[w.row().Leader].consume(0))
}

func TestARestartedBrokerIsBackSoon(t *testing.T) {
	w := newWorld(t, 3)
	w.create(keep())
	w.nodes[1].write(values(0, 10)...)
	w.nodes[3].kill()
	w.nodes[1].scribble(values(10, 20)...)
	w.nodes[1].takesOut(3)
	began := time.Now()
	w.nodes[3].back()
	w.until(func() bool { return len(w.row().ISR) == 3 }, "3 is back")
	t.Log("back in the in-sync set after", time.Since(began))
}

// A replica that is added to a partition whose history is in the object tier copies what is hot and nothing else.
func TestAnAddedReplicaCopiesOnlyWhatIsHot(t *testing.T) {
	w := newWorld(t, 3)
	w.createOn(small("min.insync.replicas", "1"), []catalog.BrokerID{1, 2})
	w.until(func() bool { return len(w.row().ISR) == 2 }, "in sync")
	one, three := w.nodes[1], w.nodes[3]
	for i := range 300 {
		one.scribble(values(i, i+1)...)
	}
	w.until(func() bool { return w.row().Tiered >= 290 && one.hw() == 300 }, "tiered")
	one.freed(290)
	began := time.Now()
	errs, err := w.store.Move(t.Context(), []catalog.Move{{ID: w.id(), Target: []catalog.BrokerID{1, 2, 3}}})
	require.NoError(t, err)
	require.NoError(t, errs[0])
	w.pull()
	w.until(func() bool { return len(w.row().ISR) == 3 }, "3 is in sync")
	w.settled()
	t.Logf("in sync after %v with %d bytes of %d", time.Since(began), len(three.bytesOf()), w.row().TierBytes)
	require.LessOrEqual(t, len(three.bytesOf()), 12*80)
	require.GreaterOrEqual(t, three.part().Offsets().LocalStart, record.Offset(290))
	require.Equal(t, numbered(0, values(0, 300)), three.consume(0))
	w.elect(3, 1, 2, 3)
	three.write("v300")
	require.Equal(t, numbered(0, values(0, 301)), three.consume(0))
}
