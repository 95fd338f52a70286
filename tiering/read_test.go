package tiering

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// TestB1_HoleAtTheEndOfAnObject: a fetch at an offset that has no record goes on in the next object.
func TestB1_HoleAtTheEndOfAnObject(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) {
		l.batch(4) // 0..3; 4 was compacted away
		l.next = 5
		l.seal()
		l.batch(5)
		l.seal()
	})
	r.tiered(0, 10)
	require.Equal(t, record.Offset(5), r.rows(0)[0].Next)
	c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 4, Bound: 10, MaxBytes: 1 << 20})
	require.NoError(t, err)
	r.same(l, c, 4)
	require.Equal(t, record.Offset(10), c.Next)
	require.NotZero(t, c.Size)
	c.Release()
	c, err = r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 4, Bound: 5, MaxBytes: 1 << 20})
	require.NoError(t, err)
	require.Zero(t, c.Size, "beyond the bound nothing is shown")
	require.Equal(t, record.Offset(5), c.Next)
}

// TestB3_ObjectReplacedUnderAReader: it meets a 404, reads the row again, and goes on (H22).
func TestB3_ObjectReplacedUnderAReader(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.consume(0, l, 0, 10) // the rows are known now
	old := r.replace(0, l, 0, 20)
	for _, s := range old {
		require.NoError(t, r.store.Store.Delete(r.ctx, s.Key))
	}
	r.cacheless(old)
	r.store.forgetCounts()
	r.consume(0, l, 5, 20)
	gets, _, _ := r.store.counts()
	for _, s := range old {
		n := 0
		for _, k := range gets {
			if k == s.Key {
				n++
			}
		}
		require.LessOrEqual(t, n, 2, "404s on %s", s.Key)
	}
}

// cacheless forgets tails; rows are known still.
func (r *rig) cacheless(rows []catalog.Segment) {
	for _, s := range rows {
		r.tier.read.tails.Forget(s.Key)
	}
}

// replace merges all rows of [from, to) into one, as a merge job does, and returns the old rows.
func (r *rig) replace(n int32, l *memLog, from, to record.Offset) []catalog.Segment {
	r.t.Helper()
	job, err := r.cat.TakeJob(r.ctx, r.p(n), "merge", 1, r.inc, 0)
	require.NoError(r.t, err)
	old := r.rows(n)
	run := l.runLocked(from, to)
	id := object.NewAttempt()
	b, err := object.Build(r.ctx, object.Spec{
		Cluster: object.ID(r.opts.Cluster), Topic: object.ID(r.topic), TopicName: "events", Partition: n, Attempt: id,
		Base: from, Next: to, Generation: 1, AppendTime: run.AppendTime, Aborted: run.Aborted,
	}, run.Data, run.Size)
	require.NoError(r.t, err)
	seg := rowOf(&b.Footer, b.SHA256)
	require.NoError(r.t, r.cat.PutJobIntent(r.ctx, job, catalog.Intent{Attempt: id, Partition: r.p(n), Base: from, Next: to, Key: seg.Key, Job: job.ID}))
	require.NoError(r.t, r.store.Store.Put(r.ctx, seg.Key, objstore.Source{ReaderAt: b, Size: b.ObjectBytes, SHA256: b.SHA256}, objstore.PutOptions{}))
	var ids []catalog.SegmentID
	for _, s := range old {
		ids = append(ids, s.ID)
	}
	require.NoError(r.t, r.cat.Swap(r.ctx, job, ids, []catalog.Segment{seg}))
	return old
}

// TestB4_LostObjectIsNotPassed: a storage error, never data from beyond the hole; only start moves a reader.
func TestB4_LostObjectIsNotPassed(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(3) })
	r.tiered(0, 30)
	require.NoError(t, r.store.Store.Delete(r.ctx, r.rows(0)[1].Key))
	r.consume(0, l, 0, 10)
	for range 3 {
		_, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 10, Bound: 30, MaxBytes: 1 << 20, AtLeastOne: true})
		require.ErrorIs(t, err, ErrStorage)
		require.ErrorIs(t, err, objstore.ErrNotFound)
	}
	_, _, err := r.cat.MoveStart(r.ctx, r.p(0), r.guard(0), 20)
	require.NoError(t, err)
	r.tier.Forget(r.p(0), 20)
	_, err = r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 10, Bound: 30, MaxBytes: 1 << 20})
	require.ErrorIs(t, err, ErrBelowStart)
	r.consume(0, l, 20, 30)
}

// TestP2_DamagedObjectIsNotServed: a flipped byte in the bucket is a storage error.
func TestP2_DamagedObjectIsNotServed(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	row := r.rows(0)[0]
	raw := make([]byte, row.Bytes)
	require.NoError(t, r.store.Store.ReadRange(r.ctx, row.Key, 0, raw))
	for _, at := range []int64{65, row.TailPosition + 3} {
		bad := append([]byte{}, raw...)
		bad[at] ^= 4
		require.NoError(t, r.store.Store.Delete(r.ctx, row.Key))
		require.NoError(t, r.store.Store.Put(r.ctx, row.Key, objstore.Bytes(bad), objstore.PutOptions{}))
		_, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), Bound: 10, MaxBytes: 1 << 20})
		require.ErrorIs(t, err, ErrStorage, "byte %d", at)
		r.tier.read.tails.Forget(row.Key)
	}
}

// TestB5_EveryEdge: one read at each object's base, the offset before, and the ends of the range.
func TestB5_EveryEdge(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(4) })
	r.tiered(0, 40)
	for _, s := range r.rows(0) {
		for _, o := range []record.Offset{s.Base - 1, s.Base, s.Next - 1} {
			if o < 0 {
				continue
			}
			c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: o, Bound: 40, MaxBytes: 1 << 20})
			require.NoError(t, err, "at %d", o)
			r.same(l, c, o)
			require.NotZero(t, c.Size)
			c.Release()
		}
	}
	c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 40, Bound: 40, MaxBytes: 1})
	require.NoError(t, err)
	require.Zero(t, c.Size)
	require.Equal(t, record.Offset(40), c.Next)
}

// TestB7_TailCacheOfOneEntry: many readers on many objects, with room for hardly one tail.
func TestB7_TailCacheOfOneEntry(t *testing.T) {
	r := newRig(t, func(o *Options) { o.TailBytes = 600 })
	l := r.lead(0, func(l *memLog) { l.segments(16) })
	r.tiered(0, 160)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() { r.consume(0, l, record.Offset(i*10), record.Offset(i*10+10)) })
	}
	wg.Wait()
}

// TestB9_CacheSmallerThanTheWorkingSet: all readers finish, and what is downloaded stays near the data.
func TestB9_CacheSmallerThanTheWorkingSet(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ChunkBytes = 128 << 10 })
	logs := make([]*memLog, 50)
	var data int64
	for n := range logs {
		logs[n] = r.lead(int32(n), func(l *memLog) { l.size = 20_000; l.segments(1) })
		data += int64(len(logs[n].data))
	}
	for n := range logs {
		r.tiered(int32(n), 10)
	}
	r.store.forgetCounts()
	var wg sync.WaitGroup
	for n, l := range logs {
		wg.Go(func() { r.consume(int32(n), l, 0, 10) })
	}
	wg.Wait()
	_, _, read := r.store.counts()
	require.LessOrEqual(t, read, 3*data)
	require.LessOrEqual(t, r.cache.Used(), testCacheBytes[t.Name()])
}

// TestF16_B14_AbortedTransactions are listed for every object that has a record of them, wherever the marker is,
// and an object without any answers an empty list (B14, H9).
func TestF16_B14_AbortedTransactions(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) {
		l.batchOf(&record.Producer{ID: 7}, true, 2) // 0,1
		l.seal()
		l.batchOf(&record.Producer{ID: 7, BaseSequence: 2}, true, 1) // 2
		l.batch(1)                                                   // 3
		l.seal()
		l.marker(7, record.ControlAbort) // 4
		l.seal()
		l.batch(2) // 5,6
		l.seal()
		l.aborted.Add(producer.Aborted{ProducerID: 7, First: 0, Last: 4, LastStable: 5})
	})
	r.tiered(0, 7)
	r.tier.Unlead(r.p(0))
	r.restart() // nothing but catalog and bucket is left
	for _, c := range []struct {
		from record.Offset
		want int
	}{{0, 1}, {1, 1}, {2, 1}, {4, 1}, {5, 0}} {
		chunk, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: c.from, Bound: 7, MaxBytes: 1, AtLeastOne: true, Committed: true})
		require.NoError(t, err)
		require.Len(t, chunk.Aborted, c.want, "at %d", c.from)
		chunk.Release()
	}
	st, err := r.tier.State(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Equal(t, record.Offset(7), st.Producers.End())
	_, open := st.Producers.FirstOpen()
	require.False(t, open)
	require.Equal(t, 1, st.Producers.Len())
	_ = l
}

// TestB16_H36_DownloadOutlivesTheFetch: fetches that give up never make a download begin again (H36).
func TestB16_H36_DownloadOutlivesTheFetch(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ReadAhead = 1 })
	l := r.lead(0, func(l *memLog) { l.size = 1000; l.segments(3) })
	r.tiered(0, 30)
	gate := make(chan struct{}, 1)
	r.store.set(func(op, _ string, done bool) error {
		if op == "get" && !done {
			<-gate
		}
		return nil
	})
	r.store.forgetCounts()
	impatient := 0
	for at := record.Offset(0); at < 30; {
		c, pending, err := r.tier.TryRead(ReadRequest{Partition: r.p(0), From: at, Bound: 30, MaxBytes: 1 << 20})
		require.NoError(t, err)
		if pending != nil {
			impatient++
			pending.Cancel()
			select {
			case gate <- struct{}{}:
			default:
			}
			continue
		}
		r.same(l, c, at)
		at = c.Next
		c.Release()
	}
	close(gate)
	require.Greater(t, impatient, 3)
	gets, _, read := r.store.counts()
	require.LessOrEqual(t, len(gets), 6, "a tail and a chunk for each object")
	require.LessOrEqual(t, read, int64(len(l.data))*6/5)
}

// TestC7_LookupOverAWideHole: offsets 0 and 2^31+9; a read between them gets the second.
func TestC7_LookupOverAWideHole(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.batch(1); l.next = 2147483657; l.batch(1); l.seal() })
	r.tiered(0, 2147483658)
	require.Len(t, r.rows(0), 2)
	for _, from := range []record.Offset{1, 2147483648, 2147483657} {
		c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: from, Bound: 1 << 40, MaxBytes: 1 << 20})
		require.NoError(t, err)
		b, err := c.Bytes()
		require.NoError(t, err)
		h, err := record.ParseHeader(b)
		require.NoError(t, err)
		require.Equal(t, record.Offset(2147483657), h.BaseOffset)
		c.Release()
	}
}

// TestE11_EpochsOfTheTieredPart are answered when the local log does not have them any more.
func TestE11_EpochsOfTheTieredPart(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) {
		l.segments(1)
		l.epoch = 1
		l.segments(1)
		l.epoch = 2
		l.segments(1)
		l.hw = 20
	})
	r.tiered(0, 20)
	for epoch, end := range map[record.Epoch]record.Offset{0: 10, 1: 20} {
		got, at, err := r.tier.EpochEnd(r.ctx, r.p(0), epoch)
		require.NoError(t, err)
		require.Equal(t, epoch, got)
		require.Equal(t, end, at)
	}
}

// TestL9_ColdReadsAreBounded: however many wait, no more than the configured number work.
func TestL9_ColdReadsAreBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ReadConcurrency = 3; o.ReadAhead = 1 })
	for n := range int32(20) {
		r.lead(n, func(l *memLog) { l.segments(1) })
	}
	for n := range int32(20) {
		r.tiered(n, 10)
	}
	var now, most atomic.Int32
	r.store.set(func(op, _ string, done bool) error {
		if op == "get" && !done {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
		} else if op == "get" {
			now.Add(-1)
		}
		return nil
	})
	var wg sync.WaitGroup
	for n := range int32(20) {
		wg.Go(func() {
			c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(n), Bound: 10, MaxBytes: 1 << 20})
			require.NoError(t, err)
			c.Release()
		})
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int32(3))
}

// TestH32_RowsServeWhileTheCatalogIsAway: known rows go on serving; unknown ones are storage errors (R8, R16).
func TestH32_RowsServeWhileTheCatalogIsAway(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RowTTL = time.Nanosecond })
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	r.tier.Unlead(r.p(0))
	r.consume(0, l, 0, 10)
	r.cat.set(func(string, bool) error { return catalog.MarkUnavailable(errInjected) })
	r.consume(0, l, 0, 10)
	_, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(1), Bound: 10, MaxBytes: 1 << 20})
	require.ErrorIs(t, err, ErrStorage)
}

// TestB18_SizeRules: the first batch counts against MaxBytes unless one is asked for at least.
func TestB18_SizeRules(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) {
		l.size = 300_000
		l.batch(1)
		l.batch(1)
		l.size = 10
		l.batch(1)
		l.seal()
	})
	r.tiered(0, 3)
	req := ReadRequest{Partition: r.p(0), Bound: 3, MaxBytes: 10_000}
	c, err := r.tier.Read(r.ctx, req)
	require.NoError(t, err)
	require.Zero(t, c.Size)
	require.Equal(t, record.Offset(0), c.Next)
	req.AtLeastOne = true
	c, err = r.tier.Read(r.ctx, req)
	require.NoError(t, err)
	require.Equal(t, record.Offset(1), c.Next)
	r.same(l, c, 0)
	c.Release()
	c.Release()
}

// TestReadsAgainstAWalk: any request gets exactly the batches that a walk of the log gives.
func TestReadsAgainstAWalk(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ChunkBytes = 100 << 10 })
	l := r.lead(0, func(l *memLog) {
		rnd := rand.New(rand.NewPCG(3, 4))
		for range 6 {
			for i := range 12 {
				l.size = []int{5, 500, 9_000, 70_000}[rnd.IntN(4)]
				if i > 0 {
					l.next += record.Offset(rnd.IntN(2) * rnd.IntN(3))
				}
				l.batch(1 + rnd.IntN(4))
			}
			l.seal()
		}
	})
	r.tiered(0, l.next)
	rapid.Check(t, func(rt *rapid.T) {
		from := record.Offset(rapid.IntRange(0, int(l.next)-1).Draw(rt, "from"))
		req := ReadRequest{
			Partition: r.p(0), From: from, Bound: from + record.Offset(rapid.IntRange(1, 60).Draw(rt, "bound")),
			MaxBytes: int64(rapid.SampledFrom([]int{0, 100, 5_000, 80_000, 300_000, 1 << 30}).Draw(rt, "max")), AtLeastOne: rapid.Bool().Draw(rt, "one"),
		}
		req.Bound = min(req.Bound, l.next)
		c, err := r.tier.Read(r.ctx, req)
		require.NoError(rt, err)
		defer c.Release()
		got, err := c.Bytes()
		require.NoError(rt, err)
		if req.MaxBytes < int64(len(got)) {
			require.True(rt, req.AtLeastOne)
		}
		if len(got) == 0 {
			fits := l.between(from, min(c.Next, req.Bound))
			require.True(rt, c.Next == from || len(fits) == 0)
			if c.Next == from {
				require.False(rt, req.AtLeastOne)
			}
			return
		}
		require.Equal(rt, l.between(from, c.Next), got)
		f, at, ok, err := c.Section()
		require.NoError(rt, err)
		if !ok {
			return // in memory still
		}
		raw := make([]byte, c.Size)
		_, err = f.ReadAt(raw, at)
		require.NoError(rt, err)
		require.Equal(rt, got, raw)
	})
}

// TestReadAheadCrossesObjectEnds: a sequential replay asks for each byte once, a chunk at a time.
func TestReadAheadCrossesObjectEnds(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ChunkBytes = 256 << 10 })
	l := r.lead(0, func(l *memLog) { l.size = 50_000; l.segments(20) })
	r.tiered(0, 200)
	r.restart()
	r.store.forgetCounts()
	r.consume(0, l, 0, 200)
	gets, _, read := r.store.counts()
	chunks := 0
	for _, s := range r.rows(0) {
		chunks += int(s.DataBytes/(256<<10)) + 1
	}
	require.LessOrEqual(t, len(gets), chunks+len(r.rows(0)))
	require.LessOrEqual(t, read, int64(len(l.data))*11/10)
}

// TestCloseEndsWaitingReads and nothing is left behind.
func TestCloseEndsWaitingReads(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	ctx, cancel := context.WithCancel(r.ctx)
	entered := make(chan struct{})
	var once sync.Once
	release := make(chan struct{})
	r.store.set(func(op, _ string, done bool) error {
		if op == "get" && !done {
			once.Do(func() { close(entered) })
			<-release
		}
		return nil
	})
	failed := make(chan error, 2)
	go func() {
		_, err := r.tier.Read(ctx, ReadRequest{Partition: r.p(0), Bound: 10, MaxBytes: 1})
		failed <- err
	}()
	go func() {
		_, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 3, Bound: 10, MaxBytes: 1})
		failed <- err
	}()
	<-entered
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	go func() { close(release) }()
	r.stop()
	if err := <-failed; err != nil {
		require.ErrorIs(t, err, ErrClosed)
	}
	_, _, err := r.tier.TryRead(ReadRequest{Partition: r.p(0), Bound: 10, MaxBytes: 1})
	require.ErrorIs(t, err, ErrClosed)
}
