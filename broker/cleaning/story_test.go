package cleaning

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/record"
	"tidemark/tiering"
)

// story begins a story on an island whose every loss counts.
func story(t *testing.T) *island {
	i := newSea(t).island(t)
	i.policy.MinDirtyRatio = 0
	return i
}

// compacts makes a pass that must end well, and looks whether everything is right.
func (i *island) compacts(want string) {
	i.t.Helper()
	require.NoError(i.t, i.pass())
	i.sound()
	require.Equal(i.t, want, i.there())
}

func (i *island) later(ms int64) { i.now += ms }

func TestTheNewestValueOfEachKeyStays(t *testing.T) {
	i := story(t)
	i.object("a=1", "b=1", "a=2")
	i.object("b=2", "c=1")
	i.object("a=3")
	i.policy.ObjectBytes = 1 // nothing is joined
	i.compacts("_ | b=2 c=1 | a=3")
	i.own.ops = 0
	require.NoError(t, i.pass())
	require.Zero(t, i.own.ops)
}

func TestH9_AbortedRecordsSupersedeNothing(t *testing.T) {
	i := story(t)
	i.object("k=1", "other=1")
	i.in(7, "k=2")
	i.seal()
	i.aborts(7)
	i.put("x=1")
	i.object()
	i.compacts("k=1 other=1 | (abort 7) x=1")
}

func TestH10_C9_ATombstoneStaysUntilWhatItHidesHasGoneAndThenSomeTime(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.object("k=v", "a=1")
	i.object("k", "b=1")
	// The swap of the lower object is the first; the process dies with it.
	r := i.reader()
	r.read(i.batches(0), 1)
	for left := 0; ; left++ {
		i.own.left, i.own.after = left, true
		err := i.pass()
		died := i.own.dead
		i.live()
		i.sound()
		require.Contains(t, i.there(), "k b=1", "the tombstone stays, whatever has died")
		if !died {
			require.NoError(t, err)
			break
		}
	}
	require.Equal(t, "a=1 | k b=1", i.there())
	i.later(99)
	i.compacts("a=1 | k b=1")
	r.read(i.batches(r.at), 10)
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, r.state, "who began before in time sees the tombstone")
	i.later(3)
	i.compacts("a=1 | b=1")
	i.own.ops = 0
	i.later(1000)
	i.compacts("a=1 | b=1")
	require.Equal(t, 0, i.own.ops)
}

func TestH10_ATombstoneDoesNotGoInThePassThatTakesWhatItHides(t *testing.T) {
	i := story(t)
	i.policy.DeleteRetentionMs = 0
	i.policy.ObjectBytes = 1
	i.object("k=v", "a=1")
	i.object("k", "b=1")
	i.compacts("a=1 | k b=1")
	i.later(2)
	i.compacts("a=1 | b=1")
}

func TestC9_ARowThatIsNotAsCleanAsItSaysKeepsItsTombstone(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.object("k=v", "a=1")
	i.object("k", "b=1")
	j, err := i.cat.TakeJob(i.ctx, i.p, "merge", catalog.NoBroker, 1, 0)
	require.NoError(t, err)
	for _, r := range i.rows() {
		require.NoError(t, i.cat.MarkClean(i.ctx, j, []catalog.SegmentID{r.ID}, i.now-1000))
	}
	require.NoError(t, i.cat.EndJob(i.ctx, j))
	i.compacts("a=1 | k b=1")
	i.later(99)
	i.compacts("a=1 | k b=1")
	i.later(3)
	i.compacts("a=1 | b=1")
}

func TestH19_ABatchThatCannotBeDecodedIsCopiedAndCounted(t *testing.T) {
	i := story(t)
	i.put("a=1", "b=1")
	i.object("c=1", "d=1")
	bad := i.spoil()
	i.object("c=2", "b=2")
	i.policy.ObjectBytes = 1
	require.NoError(t, i.pass())
	rows, all := i.rows(), i.batches(0)
	require.EqualValues(t, 2, rows[0].Generation, "c=1 has gone")
	require.EqualValues(t, 3, rows[0].Records)
	require.Equal(t, bad, all[0].raw, "byte for byte")
}

func TestH31_ObjectsWithoutDigestsAreRewrittenFirst(t *testing.T) {
	i := story(t)
	i.digests = false
	i.object("a=1", "b=1", "=no key")
	i.object("a=2")
	i.digests = true
	i.object("b=2")
	i.policy.ObjectBytes = 1
	i.compacts("_ | a=2 | b=2")
}

func TestC1_AMarkerStaysUntilTheRecordsOfItsTransactionHaveGoneAndThenSomeTime(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.memory = 1 // one object after the other
	i.live()
	i.in(1, "k1=x")
	i.put("a=1")
	i.seal()
	i.in(1, "k2=x")
	i.put("b=1")
	i.seal()
	i.aborts(1)
	i.put("c=1")
	i.object()
	for left := 0; ; left++ {
		i.own.left, i.own.after = left, left%2 == 0
		err := i.pass()
		died := i.own.dead
		i.live()
		i.sound()
		require.Contains(t, i.there(), "(abort 1) c=1")
		if !died {
			require.NoError(t, err)
			break
		}
	}
	require.Equal(t, "a=1 | b=1 | (abort 1) c=1", i.there())
	i.later(99)
	i.compacts("a=1 | b=1 | (abort 1) c=1")
	i.later(3)
	i.compacts("a=1 | b=1 | c=1")
}

func TestC1_ACommitMarkerStaysAsLongAsItsRecords(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.in(1, "k=1")
	i.commits(1)
	i.object("z=1")
	i.compacts("k=1 (commit 1) z=1")
	i.later(1000)
	i.compacts("k=1 (commit 1) z=1")
	i.object("k=2")
	i.compacts("(commit 1) z=1 | k=2")
	i.later(99)
	i.compacts("(commit 1) z=1 | k=2")
	i.later(3)
	i.compacts("z=1 | k=2")
}

func TestC1_ACommitMarkerGoesWhenTheRecordsOfItsTransactionInLowerObjectsHaveGone(t *testing.T) {
	began := func(t *testing.T) *island {
		i := story(t)
		i.policy.ObjectBytes = 1
		i.in(1, "k1=1")
		i.put("a=1")
		i.seal()
		i.in(1, "k2=1")
		i.put("b=1")
		i.seal()
		i.commits(1)
		i.put("c=1")
		i.object()
		i.compacts("k1=1 a=1 | k2=1 b=1 | (commit 1) c=1")
		i.later(1000)
		i.compacts("k1=1 a=1 | k2=1 b=1 | (commit 1) c=1")
		i.own.ops = 0
		i.later(1000)
		i.compacts("k1=1 a=1 | k2=1 b=1 | (commit 1) c=1")
		require.Zero(t, i.own.ops, "nothing waits while records are left (A6)")
		return i
	}
	i := began(t)
	i.object("k1=2")
	i.compacts("a=1 | k2=1 b=1 | (commit 1) c=1 | k1=2")
	i.later(1000)
	i.compacts("a=1 | k2=1 b=1 | (commit 1) c=1 | k1=2")
	i.object("k2=2")
	i.compacts("a=1 | b=1 | (commit 1) c=1 | k1=2 | k2=2")
	i.later(99)
	i.compacts("a=1 | b=1 | (commit 1) c=1 | k1=2 | k2=2")
	i.later(3)
	i.compacts("a=1 | b=1 | c=1 | k1=2 | k2=2")
	i.own.ops = 0
	i.later(1000)
	i.compacts("a=1 | b=1 | c=1 | k1=2 | k2=2")
	require.Zero(t, i.own.ops)

	// Whatever dies: the marker waits from when its last record went, and goes.
	for left, died := 0, true; died; left++ {
		i := began(t)
		i.object("k1=2", "k2=2")
		i.own.left, i.own.after = left, left%2 == 0
		err := i.pass()
		if died = i.own.dead; !died {
			require.NoError(t, err)
		}
		i.live()
		require.Contains(t, i.there(), "(commit 1)")
		i.compacts("a=1 | b=1 | (commit 1) c=1 | k1=2 k2=2")
		i.later(103)
		i.compacts("a=1 | b=1 | c=1 | k1=2 k2=2")
	}
}

func TestC2_TheAbortedListIsThatOfWhatIsLeft(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.in(1, "a=x", "b=x")
	i.aborts(1)
	i.put("m=1")
	i.seal()
	i.in(2, "c=x")
	i.put("n=1")
	i.seal()
	i.aborts(2)
	i.object("o=1")
	i.compacts("(abort 1) m=1 | n=1 | (abort 2) o=1")
	lists := []int{}
	for _, row := range i.rows() {
		in, err := i.tier.OpenInput(i.ctx, row)
		require.NoError(t, err)
		lists = append(lists, len(in.Aborted()))
	}
	require.Equal(t, []int{1, 0, 1}, lists)
}

func TestC3_MarkersAreNotKeyedRecords(t *testing.T) {
	i := story(t)
	for n, end := range []record.ControlType{record.ControlAbort, record.ControlAbort, record.ControlCommit} {
		i.in(1, fmt.Sprintf("%c=1", 'a'+n))
		i.seal()
		i.ends(1, end)
		i.object()
	}
	i.policy.ObjectBytes = 1
	r := func() map[string]string { return i.sound().state }
	require.Equal(t, map[string]string{"c": "1"}, r())
	require.NoError(t, i.pass())
	require.Equal(t, map[string]string{"c": "1"}, r())
	i.later(1000)
	require.NoError(t, i.pass())
	require.Equal(t, map[string]string{"c": "1"}, r())
}

func TestC4_TheLastBatchOfARangeStays(t *testing.T) {
	i := story(t)
	i.in(1, "a=1", "b=1")
	i.commits(1)
	i.object()
	i.object("a=2", "b=2")
	i.policy.ObjectBytes = 1
	i.compacts("(commit 1) | a=2 b=2")
	i.later(200)
	i.compacts("_ | a=2 b=2")
}

func TestC11_AShortOrDamagedInputMakesNothing(t *testing.T) {
	i := story(t)
	i.object("a=1", "b=1")
	i.object("a=2")
	rows, before := i.rows(), len(i.disk.objects)
	data := rows[0]
	i.disk.hurt = func(key string, b []byte) {
		if key == data.Key && int64(len(b)) == data.Bytes { // the pass reads all of a small object at once
			b[data.DataBytes-1] ^= 1
		}
	}
	require.ErrorIs(t, i.pass(), compaction.ErrInput)
	i.disk.hurt = nil
	require.Equal(t, before, len(i.disk.objects), "nothing was put")
	require.Equal(t, rows, i.rows())
	i.compacts("b=1 | a=2")
}

func TestA6_C12_WhatChangesNothingIsDoneOnce(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.object("a=1", "b=1")
	i.object("c=1")
	require.NoError(t, i.pass())
	rows := i.rows()
	require.EqualValues(t, 0, rows[0].Generation, "nothing was put")
	require.Equal(t, catalog.Spotless, rows[0].CleanSince)
	i.own.ops = 0
	for range 10 {
		i.later(1000)
		require.NoError(t, i.pass())
	}
	require.Zero(t, i.own.ops)
	require.Equal(t, rows, i.rows())
}

func TestP6_SmallMemoryMakesMorePassesAndTheSameResult(t *testing.T) {
	want := ""
	for _, memory := range []int64{1 << 20, 1} {
		i := story(t)
		i.memory = memory
		i.policy.ObjectBytes = 400
		i.live()
		for n := range 40 {
			i.object(fmt.Sprintf("k%d=%d", n%7, n), fmt.Sprintf("l%d=%d", n%11, n), fmt.Sprintf("only%d=1", n))
		}
		require.NoError(t, i.pass())
		i.sound()
		require.Equal(t, 40+18, i.sound().records)
		if want == "" {
			want = fmt.Sprint(i.sound().state)
		}
		require.Equal(t, want, fmt.Sprint(i.sound().state))
	}
}

// A pass reads the objects that new ones have taken enough from, or have a tombstone for, and of the others a sample.
func TestAPassReadsWhatNewRowsMeet(t *testing.T) {
	i := newSea(t).island(t)
	i.policy.MinDirtyRatio, i.policy.ObjectBytes, i.samples = 0.01, 1, 20
	i.live()
	objects, each := 30, 2000
	for o := range objects {
		kvs := make([]string, each)
		for k := range kvs {
			kvs[k] = fmt.Sprintf("k%d-%d=1", o, k)
		}
		i.object(kvs...)
	}
	require.NoError(t, i.pass())
	before := i.rows()
	kvs := []string{"k12-77", "k29-78"}
	for k := range each / 2 {
		kvs = append(kvs, fmt.Sprintf("k7-%d=2", k))
	}
	kvs = append(kvs, "k3-5=2")
	i.object(kvs...)
	i.disk.read = 0
	require.NoError(t, i.pass())
	rewritten := i.rows()[7].Bytes + before[7].Bytes + 2*(before[12].Bytes+before[29].Bytes)
	t.Logf("read %d bytes; all digests are %d, what was rewritten %d", i.disk.read, 20*objects*each, rewritten)
	var changed []int
	for n, r := range i.rows()[:objects] {
		if r.ID != before[n].ID {
			changed = append(changed, n)
		}
	}
	require.Equal(t, []int{7, 12, 29}, changed)
	require.Less(t, i.disk.read-rewritten, int64(20*objects*each/2))
	r := i.sound()
	require.Equal(t, objects*each-each/2-2+len(kvs), r.records, "k3-5 is left for later")
	i.later(200)
	require.NoError(t, i.pass())
	require.Equal(t, r.records-2, i.sound().records, "the tombstones have gone")
}

func TestMinAndMaxCompactionLag(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.policy.MinLagMs, i.policy.DeleteRetentionMs = 50, 10_000
	i.object("a=1")
	i.object("a=2")
	i.compacts("a=1 | a=2")
	i.later(50)
	i.object("a=3")
	i.compacts("_ | a=2 | a=3")
	i.policy.MinDirtyRatio, i.policy.MinLagMs = 0.9, 0
	i.compacts("_ | a=2 | a=3")
	i.policy.MaxLagMs = 70
	i.later(70)
	i.compacts("_ | _ | a=3")
}

// Two compactors at once: one wins each job, nobody ever sees anything wrong (A5, A20).
func TestA20_TwoCompactorsAtOnce(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 300
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	var workers []*compaction.Worker
	for inc := range 2 {
		w, err := compaction.NewWorker(compaction.Options{
			Catalog: &deeds{i.cat, i.sea}, Objects: Objects{Tier: i.tier}, Broker: catalog.NoBroker, Incarnation: catalog.Incarnation(100 + inc),
			Pause: time.Millisecond, Lease: time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		require.NoError(t, err)
		w.Set(i.p, i.policy)
		workers = append(workers, w)
		both.Go(func() { _ = w.Run(ctx) })
	}
	for n := range 60 {
		i.object(fmt.Sprintf("k%d=%d", n%5, n), fmt.Sprintf("k%d", (n+1)%5))
		for _, w := range workers {
			w.Wake(i.p)
		}
		at := record.Offset(0)
		for _, row := range i.rows() {
			require.Equal(t, at, row.Base, "no gap and no overlap at any time")
			at = row.Next
		}
	}
	end := time.Now().Add(2 * time.Minute)
	for {
		dirty := 0
		for _, r := range i.rows() {
			if r.CleanSince == 0 {
				dirty++
			}
		}
		if dirty == 0 {
			break
		}
		require.True(t, time.Now().Before(end), "%d rows are dirty", dirty)
		<-time.After(5 * time.Millisecond)
	}
	cancel()
	both.Wait()
	i.sound()
	intents, err := i.cat.Intents(i.ctx, i.p)
	require.NoError(t, err)
	require.Empty(t, intents)
}

// A pass is told to stop at each of its steps: its job ends, its inputs are live, no intent is left (L10).
func TestL10_APassThatIsStoppedLeavesNothing(t *testing.T) {
	for step := 0; ; step++ {
		i := story(t)
		i.object("a=1", "b=1")
		i.object("a=2", "b")
		ctx, cancel := context.WithCancel(t.Context())
		i.own.left = -1
		n := 0
		i.disk.hurt = func(string, []byte) {
			if n++; n > step {
				cancel()
			}
		}
		_, err := i.worker.Once(ctx, i.p, i.policy)
		stopped := ctx.Err() != nil
		cancel()
		i.disk.hurt = nil
		i.sound()
		intents, ierr := i.cat.Intents(i.ctx, i.p)
		require.NoError(t, ierr)
		require.Empty(t, intents)
		j, jerr := i.cat.TakeJob(i.ctx, i.p, "compact", catalog.NoBroker, 999, 0)
		require.NoError(t, jerr, "the job is over")
		require.NoError(t, i.cat.EndJob(i.ctx, j))
		if !stopped {
			require.NoError(t, err)
			return
		}
		i.compacts("_ | a=2 b")
	}
}

func TestH34_MergeJoinsSmallNeighboursOfLikeAge(t *testing.T) {
	i := newSea(t).island(t)
	i.digests = false
	i.policy = compaction.Policy{RetentionMs: 10_000, ObjectBytes: 1 << 20}
	for n := range 9 {
		i.object(fmt.Sprintf("k=%d", n))
		i.later(50)
	}
	i.later(5000)
	for n := range 9 {
		i.object(fmt.Sprintf("k=%d", n))
	}
	i.later(10)
	require.NoError(t, i.pass())
	r := i.sound()
	require.Equal(t, 18, r.records, "a merge removes nothing")
	rows := i.rows()
	require.Len(t, rows, 2, "the old and the young are not joined")
	require.EqualValues(t, 9, rows[0].Next)
	require.EqualValues(t, 1, rows[0].Generation)
	i.own.ops = 0
	require.NoError(t, i.pass())
	require.Zero(t, i.own.ops)
}

// spoil damages the body of the first batch of the first row so that nobody can decode it, under right checksums, as
// a release with another judge might have let it in.
func (i *island) spoil() []byte {
	i.t.Helper()
	row := i.rows()[0]
	in, err := i.tier.OpenInput(i.ctx, row)
	require.NoError(i.t, err)
	j, err := i.cat.TakeJob(i.ctx, i.p, "merge", catalog.NoBroker, 1, 0)
	require.NoError(i.t, err)
	w, err := i.tier.BeginRewrite(i.ctx, tiering.RewriteSpec{Job: j, Rows: []catalog.Segment{row}, Last: in, Compacted: true})
	require.NoError(i.t, err)
	var bad []byte
	for n, b := range i.batches(row.Base)[:2] {
		if n > 0 {
			require.NoError(i.t, w.Append(b.raw))
			continue
		}
		bad = bytes.Clone(b.raw)
		bad[record.HeaderSize] = 0xff // the first record's length
		record.StampMaxTimestamp(bad, b.h.MaxTimestamp)
		require.Error(i.t, w.Append(bad))
		require.NoError(i.t, w.AppendUnread(bad))
	}
	by, err := w.Commit(i.ctx, nil, 0)
	require.NoError(i.t, err)
	require.NoError(i.t, i.cat.Swap(i.ctx, j, []catalog.SegmentID{row.ID}, []catalog.Segment{by}))
	require.NoError(i.t, i.cat.EndJob(i.ctx, j))
	return bad
}

// R15: what a broker notes of a swap says which rows it replaces and, if records went, by which they were judged.
func TestH3_ASwapIsNotedWithWhatItReplacedAndWhatItWasJudgedBy(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.object("a=1", "b=1")
	i.object("c=1")
	i.object("a=2")
	before := i.rows()
	i.noted = nil
	i.compacts("b=1 | c=1 | a=2")
	require.Len(t, i.noted, 1)
	require.Equal(t, i.rows()[0].Attempt, i.noted[0].Attempt)
	require.Equal(t, []string{before[0].Attempt}, i.noted[0].Replaced)
	require.Equal(t, before[2].Next, i.noted[0].Relies)
}
