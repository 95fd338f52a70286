package cleaning

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/compaction"
	"tidemark/record"
	"tidemark/record/producer"
)

// gate is a catalog whose swaps wait until they may go.
type gate struct {
	*deeds
	reached chan struct{} // a swap is about to commit
	open    chan struct{}
	failed  chan error // what became of it
}

func newGate(i *island) *gate {
	return &gate{deeds: &deeds{i.cat, i.sea}, reached: make(chan struct{}, 1), open: make(chan struct{}), failed: make(chan error, 1)}
}

func (g *gate) Swap(ctx context.Context, j catalog.Job, old []catalog.SegmentID, by []catalog.Segment) error {
	select {
	case g.reached <- struct{}{}:
	default:
	}
	<-g.open
	err := g.deeds.Swap(ctx, j, old, by)
	select {
	case g.failed <- err:
	default:
	}
	return err
}

// at makes a worker with a catalog and an incarnation of its own.
func (i *island) at(c compaction.Catalog, o compaction.Options) *compaction.Worker {
	o.Catalog, o.Broker, o.Memory = c, catalog.NoBroker, i.memory
	if o.Objects == nil {
		o.Objects = Objects{Tier: i.tier}
	}
	o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	w, err := compaction.NewWorker(o)
	require.NoError(i.t, err)
	return w
}

// contiguous looks at the rows every millisecond until it is told to stop: no gap and no overlap at any time.
func (i *island) contiguous(stop <-chan struct{}) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		rows, err := i.cat.ListSegments(i.ctx, i.p, 0, 1000)
		if err != nil {
			return err
		}
		at := record.Offset(0)
		for _, r := range rows {
			if r.Base != at {
				return errors.New("a gap or an overlap in front of " + r.Key)
			}
			at = r.Next
		}
		select {
		case <-tick.C:
		case <-stop:
			return nil
		}
	}
}

// A compaction of [0,20) stands right before its commit while an upload publishes [20,30), and another compactor, which
// has taken the job over, replaces [0,30): the late one is refused and plans again.
func TestA5_ConcurrentReplacementsOfOneRange(t *testing.T) {
	i := story(t)
	i.object("a=1", "b=1")
	i.object("a=2", "c=1")
	stop, watched := make(chan struct{}), make(chan error, 1)
	go func() { watched <- i.contiguous(stop) }()

	late := newGate(i)
	slow := i.at(late, compaction.Options{Incarnation: 101, Lease: time.Hour})
	ended := make(chan error, 1)
	go func() {
		_, err := slow.Once(i.ctx, i.p, i.policy)
		ended <- err
	}()
	<-late.reached
	i.object("b=2", "d=1")
	j, err := i.cat.TakeJob(i.ctx, i.p, "compact", catalog.NoBroker, 102, 0)
	require.ErrorIs(t, err, catalog.ErrHeld)
	j, err = i.cat.TakeJob(i.ctx, i.p, "compact", catalog.NoBroker, 102, j.Lease)
	require.NoError(t, err)
	require.NoError(t, i.cat.EndJob(i.ctx, j))
	_, err = i.at(&deeds{i.cat, i.sea}, compaction.Options{Incarnation: 103}).Once(i.ctx, i.p, i.policy)
	require.NoError(t, err)
	done := i.there()
	require.Equal(t, "a=2 c=1 b=2 d=1", done)

	close(late.open)
	require.ErrorIs(t, <-late.failed, catalog.ErrFenced)
	require.Error(t, <-ended)
	require.Equal(t, done, i.there(), "what was refused has changed nothing")
	i.object("a=3")
	_, err = slow.Once(i.ctx, i.p, i.policy)
	require.NoError(t, err, "it plans again")
	close(stop)
	require.NoError(t, <-watched)
	i.sound()
	intents, err := i.cat.Intents(i.ctx, i.p)
	require.NoError(t, err)
	require.Empty(t, intents)
}

// A PUT that lasts longer than the job's lease: the holder raises it all the while, nobody takes the job, the intent
// stays, and it commits.
func TestA12_APutThatOutlivesTheLeaseCommits(t *testing.T) {
	i := story(t)
	i.object("a=1", "b=1")
	i.object("a=2")
	putting, release := make(chan string, 1), make(chan struct{})
	i.disk.stall = func(key string) {
		select {
		case putting <- key:
			<-release
		default:
		}
	}
	w := i.at(&deeds{i.cat, i.sea}, compaction.Options{Incarnation: 101, Lease: 4 * time.Second})
	ended := make(chan error, 1)
	go func() {
		_, err := w.Once(i.ctx, i.p, i.policy)
		ended <- err
	}()
	key := <-putting
	raised, last := 0, int64(-1)
	for raised < 7 { // five a lease: longer than one
		j, err := i.cat.TakeJob(i.ctx, i.p, "compact", catalog.NoBroker, 102, 0)
		require.ErrorIs(t, err, catalog.ErrHeld)
		if j.Lease != last {
			raised, last = raised+1, j.Lease
		}
		select {
		case err := <-ended:
			t.Fatalf("the pass ended under its PUT: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	intents, err := i.cat.Intents(i.ctx, i.p)
	require.NoError(t, err)
	require.Len(t, intents, 1)
	require.Equal(t, key, intents[0].Key)
	close(release)
	require.NoError(t, <-ended)
	require.Equal(t, key, i.rows()[0].Key)
	i.sound()
}

// One partition's object is lost, another's cut short: both stop and are shown, the third goes on; when the objects are
// back, so do they.
func TestA18_ABrokenObjectStopsItsPartitionAlone(t *testing.T) {
	s := newSea(t)
	var all []*island
	for range 3 {
		i := s.island(t)
		i.policy.MinDirtyRatio = 0
		i.object("a=1", "b=1")
		i.object("a=2")
		all = append(all, i)
	}
	lost, short := all[0].rows()[0].Key, all[1].rows()[0].Key
	whole := map[string][]byte{lost: s.disk.objects[lost], short: s.disk.objects[short]}
	s.disk.mu.Lock()
	delete(s.disk.objects, lost)
	s.disk.objects[short] = s.disk.objects[short][:len(s.disk.objects[short])/2]
	s.disk.mu.Unlock()

	reg := prometheus.NewRegistry()
	w := all[0].at(&deeds{s.cat, s}, compaction.Options{Incarnation: 101, Pause: time.Millisecond, RetryMax: 20 * time.Millisecond, Metrics: reg})
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = w.Run(ctx) })
	defer run.Wait()
	defer cancel()
	for _, i := range all {
		w.Set(i.p, i.policy)
	}
	stalled := func() int {
		n, err := testutil.GatherAndCount(reg, "tidemark_compaction_stalled")
		require.NoError(t, err)
		return n
	}
	clean := func(i *island) bool { return i.rows()[0].CleanSince > 0 }
	require.Eventually(t, func() bool { return stalled() == 2 && clean(all[2]) }, time.Minute, 5*time.Millisecond)
	require.False(t, clean(all[0]) || clean(all[1]), "nothing is made of what is broken")
	s.disk.mu.Lock()
	for key, b := range whole {
		s.disk.objects[key] = b
	}
	s.disk.mu.Unlock()
	require.Eventually(t, func() bool { return stalled() == 0 && clean(all[0]) && clean(all[1]) }, time.Minute, 5*time.Millisecond)
	cancel()
	run.Wait()
	for _, i := range all {
		require.Equal(t, "b=1 | a=2", i.there())
		i.sound()
	}
}

// Of an aborted transaction one object has lost its records and another not yet; the producer goes on with a committed
// one. A reader that begins at any offset finds that no aborted record is shown and no committed one hidden, and no
// object lists a transaction that begins above the first of its records there.
func TestC6_AbortedRangesOfWhatIsLeft(t *testing.T) {
	i := story(t)
	i.policy.ObjectBytes = 1
	i.in(1, "a=x", "b=x")
	i.seal()
	i.in(1, "c=x")
	i.put("m=1")
	i.seal()
	i.aborts(1)
	i.in(1, "a=1")
	i.commits(1)
	i.put("n=1")
	i.object()
	look := func() {
		t.Helper()
		for from := range i.tiered {
			for _, fetch := range []int{1, 2, 1 << 20} {
				r := i.reader()
				r.at = from
				for r.at < i.tiered {
					r.read(i.batches(r.at), fetch) // refuses aborted records
				}
				want := map[string]bool{}
				for _, w := range i.written[from:i.tiered] {
					if !w.marker && !w.aborted && i.latest(i.tiered)[w.key] == w.value {
						want[w.key] = true
					}
				}
				for key := range want {
					require.Contains(t, r.state, key, "from %d, %d batches a fetch", from, fetch)
				}
			}
		}
		for _, b := range i.batches(0) {
			if b.h.Count == 0 || !b.h.IsTransactional() || b.h.IsControl() || !i.written[b.h.BaseOffset].aborted {
				continue
			}
			listed := false
			for a := range b.aborted.Overlapping(b.h.BaseOffset, b.h.NextOffset()) {
				listed = listed || a.ProducerID == b.h.ProducerID && a.First <= b.h.BaseOffset
			}
			require.True(t, listed, "aborted records at %d", b.h.BaseOffset)
		}
	}
	look()
	for left := 0; ; left++ { // after each step of the pass
		i.own.left, i.own.after = left, true
		err := i.pass()
		died := i.own.dead
		i.live()
		look()
		if !died {
			require.NoError(t, err)
			break
		}
	}
	require.Equal(t, "_ | m=1 | (abort 1) a=1 (commit 1) n=1", i.there())
	var lists []producer.AbortedList
	for _, row := range i.rows() {
		in, err := i.tier.OpenInput(i.ctx, row)
		require.NoError(t, err)
		lists = append(lists, in.Aborted())
	}
	require.Empty(t, lists[0])
	require.Empty(t, lists[1])
	require.Len(t, lists[2], 1)
}

// A reader at any offset of a tail that is a marker, aborted, or compacted away gets a batch that ends at the tail's end.
func TestC14_AReaderReachesTheEndWhateverTheTailIs(t *testing.T) {
	tails := map[string]func(i *island){
		"a commit marker": func(i *island) { i.in(1, "k=2"); i.commits(1) },
		"aborted records": func(i *island) { i.in(1, "k=2", "k=3"); i.aborts(1) },
		"tombstones":      func(i *island) { i.put("k", "l") },
		"without keys":    func(i *island) { i.put("=x", "=y") },
	}
	for name, tail := range tails {
		t.Run(name, func(t *testing.T) {
			i := story(t)
			i.policy.ObjectBytes = 1
			i.object("k=1", "l=1", "m=1")
			tail(i)
			i.object()
			for range 4 {
				require.NoError(t, i.pass())
				i.later(1000)
			}
			for from := range i.tiered {
				all := i.batches(from)
				require.NotEmpty(t, all, "something is there at %d", from)
				r := i.reader()
				r.at = from
				r.read(all, len(all))
				require.Equal(t, i.next, r.at)
			}
		})
	}
}
