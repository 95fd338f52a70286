package tiering

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/objstore"
)

func TestUploadThenReadBack(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(5); l.batch(1) })
	r.tiered(0, 50)
	r.consume(0, l, 0, 50)
	r.bucketIsCatalog(0)
	require.Len(t, r.rows(0), 5)
	r.until(func() bool { return l.lastPublished() == 50 }, func() string { return "not told" })
	c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 50, Bound: 60, MaxBytes: 100})
	require.ErrorIs(t, err, ErrAboveTier)
	require.Nil(t, c)
	r.tier.Unlead(r.p(0))
	require.Zero(t, l.held, "every run was released")
}

// TestA1_FailedUploadIsNotPassed: while the second segment cannot be put nothing after it is published.
func TestA1_FailedUploadIsNotPassed(t *testing.T) {
	r := newRig(t, nil)
	r.store.set(func(op, key string, done bool) error {
		if op == "put" && !done && strings.Contains(key, fmt.Sprintf("/%020d/", 10)) {
			return &objstore.Error{Op: op, Key: key, Err: objstore.ErrRefused}
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(3) })
	stalled := func() bool { st, _ := r.tier.Status(r.p(0)); return st.Failures >= 10 }
	r.until(stalled, func() string { return "not stalled" })
	st, ok := r.tier.Status(r.p(0))
	require.True(t, ok)
	require.Equal(t, record.Offset(10), st.Tiered)
	require.Contains(t, st.Stalled, "refused")
	require.Equal(t, record.Offset(10), r.bounds(0).Tiered)
	require.Len(t, r.rows(0), 1)
	r.store.set(nil)
	r.tiered(0, 30)
	r.consume(0, l, 0, 30)
	r.until(func() bool { st, _ := r.tier.Status(r.p(0)); return st.Stalled == "" }, func() string { return "still stalled" })
	_, puts, _ := r.store.counts()
	slices.Sort(puts)
	require.Len(t, slices.Compact(puts), 4, "an attempt's key is kept over retries (three objects and cluster.json)")
}

// TestA2_UploadJumpsToStart: what retention dropped before its upload is never asked for again.
func TestA2_UploadJumpsToStart(t *testing.T) {
	r := newRig(t, nil)
	r.store.set(func(op, key string, done bool) error {
		if op == "put" {
			return errInjected
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(10) })
	r.until(func() bool { st, _ := r.tier.Status(r.p(0)); return st.Failures > 0 }, func() string { return "no failure" })
	b, _, err := r.cat.MoveStart(r.ctx, r.p(0), r.guard(0), 80)
	require.NoError(t, err)
	require.Equal(t, record.Offset(80), b.Tiered)
	l.mu.Lock()
	l.freed = 80
	l.mu.Unlock()
	r.tier.Forget(r.p(0), 80)
	r.store.forgetCounts()
	r.store.set(nil)
	r.tiered(0, 100)
	_, puts, _ := r.store.counts()
	for _, k := range puts {
		require.False(t, strings.Contains(k, fmt.Sprintf("/%020d/", 10)), k)
	}
	r.consume(0, l, 80, 100)
	_, err = r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 79, Bound: 100, MaxBytes: 100})
	require.ErrorIs(t, err, ErrBelowStart)
}

// TestH15_StartInsideABatch: start 15 lies in the batch [12,17); the first object begins below start.
func TestH15_StartInsideABatch(t *testing.T) {
	r := newRig(t, nil)
	_, _, err := r.cat.MoveStart(r.ctx, r.p(0), r.guard(0), 15)
	require.NoError(t, err)
	l := r.lead(0, func(l *memLog) { l.batch(12); l.batch(5); l.batch(3); l.seal() })
	r.tiered(0, 20)
	require.Equal(t, record.Offset(12), r.rows(0)[0].Base)
	r.consume(0, l, 15, 20)
}

// TestA3_ZombieLeaderIsFenced after its PUT: the next leader's row stands, the zombie stops, its object goes.
func TestA3_ZombieLeaderIsFenced(t *testing.T) {
	r := newRig(t, nil)
	var once sync.Once
	r.store.set(func(op, key string, done bool) error {
		if op == "put" && done && isSegment(key) {
			once.Do(func() { r.elect(0) })
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.until(func() bool { return len(r.keys()) == 1 && r.guard(0).Epoch == 1 }, func() string { return "no put" })
	r.until(func() bool { l.mu.Lock(); defer l.mu.Unlock(); return l.held == 0 }, func() string { return "still at work" })
	require.Equal(t, record.Offset(0), r.bounds(0).Tiered)
	require.Len(t, r.keys(), 1)
	l.setGuard(r.guard(0))
	r.tiered(0, 10)
	r.tier.Unlead(r.p(0))
	r.collectAll()
	r.bucketIsCatalog(0)
}

// TestA4_UploadBeginsInsideALocalSegment: replicas roll at different places.
func TestA4_UploadBeginsInsideALocalSegment(t *testing.T) {
	r := newRig(t, nil)
	a := r.lead(0, func(l *memLog) {
		for range 40 {
			l.batch(10)
			if l.next == 100 {
				l.seal()
			}
		}
	})
	r.tiered(0, 100)
	r.tier.Unlead(r.p(0))
	b := newMemLog(r.elect(0))
	b.data, b.batches, b.at, b.next, b.epochs, b.seals = a.data, a.batches, a.at, a.next, a.epochs, []record.Offset{150, 300, 400}
	r.tier.Lead(r.p(0), b, nil)
	r.tiered(0, 400)
	var bases []record.Offset
	for _, s := range r.rows(0) {
		bases = append(bases, s.Base)
	}
	require.Equal(t, []record.Offset{0, 100, 150, 300}, bases)
	r.consume(0, b, 0, 400)
}

// TestA7_ObjectsEqualTheirRows: every object in the bucket parses from end to end and its row says the same.
func TestA7_ObjectsEqualTheirRows(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.segments(4) })
	r.tiered(0, 40)
	for _, row := range r.rows(0) {
		seg, err := r.tier.inspect(r.ctx, row.Key)
		require.NoError(t, err)
		seg.ID, seg.MaxTimestampUpto = row.ID, row.MaxTimestampUpto
		require.Equal(t, row, seg)
	}
}

// TestA8_DamagedSegmentIsNotPublished until a peer has repaired it.
func TestA8_DamagedSegmentIsNotPublished(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) {
		l.segments(2)
		l.data[l.at[13]+70] ^= 1
	})
	r.until(func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.damaged) > 2 }, func() string { return "nobody was told" })
	require.Equal(t, record.Offset(10), r.bounds(0).Tiered)
	require.Len(t, r.keys(), 1)
	l.mu.Lock()
	require.ErrorIs(t, l.damaged[0], ErrDamaged)
	l.data[l.at[13]+70] ^= 1
	l.mu.Unlock()
	r.tiered(0, 20)
	r.consume(0, l, 0, 20)
}

// TestA10_HalfOfThePutsAndDeletesFail: when the faults end the bucket is what the catalog says.
func TestA10_HalfOfThePutsAndDeletesFail(t *testing.T) {
	r := newRig(t, nil)
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(1, 2))
	r.store.set(func(op, key string, done bool) error {
		mu.Lock()
		defer mu.Unlock()
		if (op == "put" || op == "delete") && rnd.IntN(4) == 0 {
			return &objstore.Error{Op: op, Key: key, MayBeDone: done, Err: errInjected}
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(30) })
	r.tiered(0, 300)
	b, _, err := r.cat.MoveStart(r.ctx, r.p(0), r.guard(0), 100)
	require.NoError(t, err)
	require.Equal(t, record.Offset(100), b.Start)
	r.tier.Forget(r.p(0), 100)
	r.collectAll()
	r.bucketIsCatalog(0)
	r.consume(0, l, 100, 300)
}

// TestA11_HangsAndPanics: an attempt ends at its deadline, a panic is a failure; others go on.
func TestA11_HangsAndPanics(t *testing.T) {
	r := newRig(t, func(o *Options) { o.PutTimeout = time.Second })
	release := make(chan struct{})
	r.store.set(func(op, key string, done bool) error {
		switch {
		case op != "put" || done || !isSegment(key):
		case strings.Contains(key, "/0/"):
			<-release
			return context.DeadlineExceeded
		case strings.Contains(key, "/1/"):
			panic("out of memory")
		}
		return nil
	})
	for n := range int32(3) {
		r.lead(n, func(l *memLog) { l.segments(2) })
	}
	r.tiered(2, 20)
	r.until(func() bool { st, _ := r.tier.Status(r.p(1)); return strings.Contains(st.Stalled, "out of memory") }, func() string { return "no panic counted" })
	close(release)
	r.store.set(nil)
	r.tiered(0, 20)
	r.tiered(1, 20)
}

// TestA13_TopicDeletedBetweenPutAndPublish: the publish is refused, and nothing is left in the bucket.
func TestA13_TopicDeletedBetweenPutAndPublish(t *testing.T) {
	r := newRig(t, nil)
	var once sync.Once
	r.store.set(func(op, key string, done bool) error {
		if op == "put" && done && strings.Contains(key, fmt.Sprintf("/%020d/", 10)) {
			once.Do(func() { require.NoError(t, r.cat.DeleteTopic(r.ctx, r.topic)) })
		}
		return nil
	})
	r.lead(0, func(l *memLog) { l.segments(3) })
	r.until(func() bool { return len(r.keys()) == 2 }, func() string { return "not put" })
	r.tier.Unlead(r.p(0))
	r.collectAll()
	require.Empty(t, r.keys())
}

// TestA16_UnclearPublish: the answer to COMMIT is lost; the attempt is published once, and never removed.
func TestA16_UnclearPublish(t *testing.T) {
	r := newRig(t, nil)
	var n atomic.Int32
	r.cat.set(func(op string, done bool) error {
		if op == "publish" && done && n.Add(1)%2 == 1 {
			return catalog.MarkUnavailable(errInjected)
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(20) })
	r.tiered(0, 200)
	require.Len(t, r.rows(0), 20)
	garbage, err := r.cat.CountGarbage(r.ctx)
	require.NoError(t, err)
	require.Zero(t, garbage)
	r.bucketIsCatalog(0)
	r.consume(0, l, 0, 200)
}

// TestA19_TieringAnExistingLog: many sealed segments of several epochs, of which the tier knows nothing yet.
func TestA19_TieringAnExistingLog(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) {
		for e := range record.Epoch(4) {
			l.epoch = e
			l.segments(5)
		}
		l.epoch = 0
	})
	r.tiered(0, 200)
	r.consume(0, l, 0, 200)
	st, err := r.tier.State(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Equal(t, l.epochs.Entries(), st.Epochs.Entries())
}

// TestR6_NothingAboveTheHighWatermark is uploaded.
func TestR6_NothingAboveTheHighWatermark(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.hw = 15; l.segments(3) })
	r.tiered(0, 10)
	l.mu.Lock()
	l.hw = 30
	l.mu.Unlock()
	r.tier.Wake(r.p(0))
	r.tiered(0, 30)
}

// TestH1_IntentDecidedByAnother: the attempt that lost its intent is put again under a new key.
func TestH1_IntentDecidedByAnother(t *testing.T) {
	r := newRig(t, nil)
	var once sync.Once
	var first string
	r.store.set(func(op, key string, done bool) error {
		if op == "put" && done && isSegment(key) {
			once.Do(func() {
				first = key
				ins, err := r.cat.Intents(r.ctx, r.p(0))
				require.NoError(t, err)
				require.NoError(t, r.cat.Store.GiveUp(r.ctx, r.guard(0), ins[0].Attempt))
			})
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	require.NotEqual(t, first, r.rows(0)[0].Key)
	r.collectAll()
	r.bucketIsCatalog(0)
	r.consume(0, l, 0, 10)
}

// TestH37_StoreThatForgetsOrDamages what it said it had stored: nothing of that is published.
func TestH37_StoreThatForgetsOrDamages(t *testing.T) {
	r := newRig(t, nil)
	var n atomic.Int32
	r.store.set(func(op, key string, done bool) error {
		if op != "put" || !done || !isSegment(key) {
			return nil
		}
		switch n.Add(1) {
		case 1:
			return r.store.Store.Delete(r.ctx, key)
		case 2:
			info, err := r.store.Store.Stat(r.ctx, key)
			require.NoError(t, err)
			require.NoError(t, r.store.Store.Delete(r.ctx, key))
			return r.store.Store.Put(r.ctx, key, objstore.Bytes(make([]byte, info.Size)), objstore.PutOptions{})
		}
		return nil
	})
	l := r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.collectAll()
	r.bucketIsCatalog(0)
	r.consume(0, l, 0, 20)
}

// TestH3_LeftoverIntents: what an earlier leader left is settled by R8's rules.
func TestH3_LeftoverIntents(t *testing.T) {
	crash := func(r *rig, l *memLog) {
		r.cat.set(func(op string, done bool) error {
			if op == "publish" && !done {
				return errInjected
			}
			return nil
		})
		r.tier.Lead(r.p(0), l, nil)
		r.until(func() bool { st, _ := r.tier.Status(r.p(0)); return st.Failures > 0 }, func() string { return "no failure" })
		r.tier.Unlead(r.p(0))
		r.cat.set(nil)
	}
	t.Run("held on disk: given up and uploaded again", func(t *testing.T) {
		r := newRig(t, nil)
		l := newMemLog(r.guard(0))
		l.segments(2)
		crash(r, l)
		old := r.keys()
		l.setGuard(r.elect(0))
		r.tier.Lead(r.p(0), l, nil)
		r.tiered(0, 20)
		require.NotContains(t, []string{r.rows(0)[0].Key, r.rows(0)[1].Key}, old[0])
		r.collectAll()
		r.bucketIsCatalog(0)
	})
	t.Run("on no disk: published", func(t *testing.T) {
		r := newRig(t, nil)
		l := newMemLog(r.guard(0))
		l.segments(1)
		crash(r, l)
		empty := newMemLog(r.elect(0))
		empty.freed, empty.next = 10, 10
		r.tier.Lead(r.p(0), empty, nil)
		r.tiered(0, 10)
		require.Equal(t, r.keys()[0], r.rows(0)[0].Key)
		r.consume(0, l, 0, 10)
	})
	t.Run("on no disk and not in the bucket: given up", func(t *testing.T) {
		r := newRig(t, nil)
		l := newMemLog(r.guard(0))
		l.segments(1)
		crash(r, l)
		require.NoError(t, r.store.Store.Delete(r.ctx, r.keys()[0]))
		empty := newMemLog(r.elect(0))
		r.tier.Lead(r.p(0), empty, nil)
		r.until(func() bool {
			ins, err := r.cat.Intents(r.ctx, r.p(0))
			return err == nil && len(ins) == 0
		}, func() string { return "intent is left" })
		require.Zero(t, r.bounds(0).Tiered)
	})
	t.Run("several: the one that reaches farthest", func(t *testing.T) {
		r := newRig(t, nil)
		short, long := newMemLog(r.guard(0)), newMemLog(r.guard(0))
		short.segments(2)
		crash(r, short)
		long.segments(2)
		long.seals = long.seals[1:]
		long.setGuard(r.elect(0))
		// The second leader holds nothing that the first one's intent names, and crashes too.
		ins, err := r.cat.Intents(r.ctx, r.p(0))
		require.NoError(t, err)
		require.Len(t, ins, 1)
		run := long.runLocked(0, 20)
		crashed := r.attemptOnly(long, run)
		empty := newMemLog(r.elect(0))
		empty.freed, empty.next = 20, 20
		r.tier.Lead(r.p(0), empty, nil)
		r.tiered(0, 20)
		require.Equal(t, crashed, r.rows(0)[0].Key)
		r.settledLost(0) // the other intent is decided after the publish
		r.collectAll()
		r.bucketIsCatalog(0)
	})
}

// attemptOnly does what a leader does up to the PUT, and no more; it returns the key.
func (r *rig) attemptOnly(l *memLog, run *Run) string {
	ln := newLane(r.p(0), l)
	defer ln.cancel()
	ln.guard = l.guard
	ln.settled = true
	r.cat.set(func(op string, done bool) error {
		if op == "publish" {
			return errInjected
		}
		return nil
	})
	defer r.cat.set(nil)
	_, err := r.tier.upload(r.ctx, ln, run)
	require.ErrorIs(r.t, err, errInjected)
	return ln.attempt.key
}

// TestA9_I10_KilledAnywhere: the process dies at the n-th call to the bucket or the catalog, before or after it
// took effect, again and again; in the end all is readable and the bucket is what the catalog says (A18, D10,
// I10).
func TestA9_I10_KilledAnywhere(t *testing.T) {
	r := newRig(t, nil)
	rnd := rand.New(rand.NewPCG(7, 7))
	r.stop()
	l := newMemLog(r.guard(0))
	l.segments(12)
	for round := range 40 {
		left := int64(rnd.IntN(25))
		var calls atomic.Int64
		var late atomic.Bool
		late.Store(rnd.IntN(2) == 0)
		dead := func(done bool) error {
			if n := calls.Add(1); n > left && (done || !late.Load() || n > left+1) {
				return errInjected
			}
			return nil
		}
		r.start()
		r.store.set(func(_, _ string, done bool) error { return dead(done) })
		r.cat.set(func(_ string, done bool) error { return dead(done) })
		l.setGuard(r.elect(0))
		r.tier.Lead(r.p(0), l, nil)
		r.until(func() bool { return calls.Load() > left || r.bounds(0).Tiered == 120 }, func() string { return "no calls" })
		r.tier.Unlead(r.p(0))
		r.stop()
		r.store.set(nil)
		r.cat.set(nil)
		r.contiguous(0)
		if round%10 == 9 {
			l.segments(1)
		}
	}
	r.start()
	l.setGuard(r.elect(0))
	r.tier.Lead(r.p(0), l, nil)
	r.tiered(0, l.next)
	r.consume(0, l, 0, l.next)
	r.collectAll()
	r.bucketIsCatalog(0)
	r.consume(0, l, 0, l.next)
}

// TestD11_OtherClustersBucket is refused; a bucket that is away only postpones tiering (H22).
func TestD11_OtherClustersBucket(t *testing.T) {
	r := newRig(t, nil)
	r.stop()
	o := r.opts
	o.Store, o.Catalog, o.Cache, o.Cluster = r.store, r.cat, r.cache, catalog.NewUUID()
	_, err := Open(r.ctx, o)
	require.ErrorIs(t, err, ErrOtherCluster)

	r.store.set(func(string, string, bool) error { return errInjected })
	r.start()
	require.False(t, r.tier.Ready())
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	_, err = r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), Bound: 1, MaxBytes: 1})
	require.ErrorIs(t, err, ErrStorage)
	r.store.set(nil)
	r.tiered(0, 10)
	r.consume(0, l, 0, 10)
}

func TestOptionsReportEveryFault(t *testing.T) {
	o := Options{Grace: time.Second, RowTTL: time.Minute, RetryMin: time.Hour}
	err := o.Validate()
	for _, want := range []string{"Store", "Catalog", "Cache", "Cluster", "Grace", "RetryMax"} {
		require.ErrorContains(t, err, want)
	}
}

// TestR2_LostPreviousObject: an upload whose predecessor is gone takes the state from the log, and goes on.
func TestR2_LostPreviousObject(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	r.tier.Unlead(r.p(0))
	require.NoError(t, r.store.Store.Delete(r.ctx, r.rows(0)[0].Key))
	r.freshCache()
	l.segments(1)
	l.setGuard(r.elect(0))
	r.tier.Lead(r.p(0), l, nil)
	r.tiered(0, 20)
	r.consume(0, l, 10, 20)
	st, err := r.tier.State(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Equal(t, []record.EpochStart{{Epoch: 0, Start: 0}}, st.Epochs.Entries())
}

// TestR11_StateOfATierThatHoldsNothing: an empty one, and one whose start has jumped past all objects.
func TestR11_StateOfATierThatHoldsNothing(t *testing.T) {
	r := newRig(t, nil)
	st, err := r.tier.State(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Zero(t, st.Tiered)
	require.Zero(t, st.Producers.Len())
	r.lead(0, func(l *memLog) { l.segments(1) })
	r.tiered(0, 10)
	r.trim(0, 15)
	st, err = r.tier.State(r.ctx, r.p(0))
	require.NoError(t, err)
	require.Equal(t, catalog.Bounds{Start: 15, Tiered: 15}, st.Bounds)
	require.Equal(t, record.Offset(15), st.Producers.End())
	require.Empty(t, st.Epochs.Entries())
	_, err = r.tier.State(r.ctx, r.p(partitions+1))
	require.Error(t, err)
	epoch, end, err := r.tier.EpochEnd(r.ctx, r.p(0), 0)
	require.NoError(t, err)
	require.Equal(t, record.NoEpoch, epoch)
	require.Equal(t, record.NoOffset, end)
}
