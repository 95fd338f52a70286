package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// rewrite puts one object in the place of the live rows of [from, to) as a worker does, told by the records' end by which
// it was judged, and returns the new row.
func (l *losing) rewrite(from, to, relies record.Offset) catalog.Segment {
	l.t.Helper()
	var old []catalog.Segment
	var ids []catalog.SegmentID
	for _, s := range l.rows(0) {
		if s.Base >= from && s.Next <= to {
			old, ids = append(old, s), append(ids, s.ID)
		}
	}
	job, err := l.cat.TakeJob(l.ctx, l.p(0), "merge", 1, l.inc, 0)
	require.NoError(l.t, err)
	last, err := l.tier.OpenInput(l.ctx, old[len(old)-1])
	require.NoError(l.t, err)
	w, err := l.tier.BeginRewrite(l.ctx, RewriteSpec{Job: job, Rows: old, Last: last, Relies: relies})
	require.NoError(l.t, err)
	for _, s := range old {
		in, err := l.tier.OpenInput(l.ctx, s)
		require.NoError(l.t, err)
		batches := in.ReadBatches(l.ctx, 0)
		for last := false; !last; {
			var b []byte
			b, last, err = batches.Next(l.ctx)
			require.NoError(l.t, err)
			require.NoError(l.t, w.Append(b))
		}
		batches.Close()
	}
	row, err := w.Commit(l.ctx, nil, catalog.Spotless)
	require.NoError(l.t, err)
	require.NoError(l.t, l.cat.Swap(l.ctx, job, ids, []catalog.Segment{row}))
	l.tier.Replaced(row)
	require.NoError(l.t, l.cat.EndJob(l.ctx, job))
	return row
}

// remove deletes the objects of rows, as removal does after its grace.
func (l *losing) remove(rows ...catalog.Segment) {
	l.t.Helper()
	for _, s := range rows {
		require.NoError(l.t, l.store.Store.Delete(l.ctx, s.Key))
	}
}

func (l *losing) report() {
	l.t.Helper()
	_, err := l.cat.ReportLost(l.ctx, l.noted())
	require.NoError(l.t, err)
}

// reclaim is what a broker does that is elected.
func (l *losing) reclaim() {
	l.t.Helper()
	l.elect(0)
	_, err := l.tier.Reclaim(l.ctx, l.p(0), l.guard(0))
	require.NoError(l.t, err)
}

// settled leads with a log that has been freed and waits until nothing is left to be decided; then the bucket is the catalog.
func (l *losing) settled(full *memLog, to record.Offset) {
	l.t.Helper()
	empty := newMemLog(l.guard(0))
	empty.freed, empty.next, empty.epochs = to, to, full.epochs
	l.tier.Lead(l.p(0), empty, nil)
	l.tier.Reconsider([]catalog.PartitionID{l.p(0)})
	l.settledLost(0)
	l.contiguous(0)
	l.consume(0, full, 0, to)
	l.collectAll()
	l.bucketIsCatalog(0)
}

// H3: swaps are lost and the objects that they replaced have been removed since: the new leader swaps them in again, a
// chain of several by its last, whose links are gone too.
func TestH3_LostSwapsComeBack(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(4) })
	r.tiered(0, 40)
	r.remember()
	before := r.rows(0)
	first := r.rewrite(0, 20, 0)
	second := r.rewrite(0, 20, 40)
	third := r.rewrite(20, 30, 40)
	r.remove(before[0], before[1], before[2], first)
	r.lose()
	_, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 0, Bound: 10, MaxBytes: 1 << 20})
	require.ErrorIs(t, err, ErrStorage, "without the swap nothing can be read")
	r.report()
	r.reclaim()
	require.Equal(t, []string{second.Key, third.Key, before[3].Key}, keysOf(r.rows(0)))
	require.Equal(t, catalog.Spotless, r.rows(0)[0].CleanSince)
	r.settled(l, 40)
}

// The same under a leader that goes on, which lost no version.
func TestH3_LostSwapsUnderALeaderThatGoesOn(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(3) })
	r.tiered(0, 30)
	r.remember()
	before := r.rows(0)
	swap := r.rewrite(0, 30, 0)
	r.remove(before...)
	r.lose()
	r.report()
	r.settled(l, 30)
	require.Equal(t, []string{swap.Key}, keysOf(r.rows(0)))
}

// A merge over uploads that are lost as well, their objects removed: it brings the tier's end back, and what follows it.
func TestH3_ALostSwapOverLostUploads(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.remember()
	l.segments(3)
	r.tier.Lead(r.p(0), l, nil)
	r.tiered(0, 50)
	before := r.rows(0)
	swap := r.rewrite(10, 40, 0)
	r.remove(before[1:4]...)
	r.lose()
	r.report()
	r.reclaim()
	require.Equal(t, []string{before[0].Key, swap.Key, before[4].Key}, keysOf(r.rows(0)))
	r.settled(l, 50)
}

// R15: a compaction that was judged by newer records comes back only beside them, and after what was compacted below it;
// where it cannot, and its inputs are there, it is given up and done anew.
func TestR15_ALostCompactionComesBackInOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		relies record.Offset
		hide   bool // the swap below it is in nobody's record any more but as a row of unknown origin
		gone   bool // the object that it replaced is gone
		comes  bool
		clean  int64
	}{
		{name: "all of it is there", relies: 30, comes: true, clean: catalog.Spotless},
		{name: "newer records are not in the tier", relies: 40},
		{name: "newer records are not in the tier and there is nothing else to read", relies: 40, gone: true, comes: true},
		{name: "what was compacted below is not", relies: 30, hide: true},
		{name: "what was compacted below is not and there is nothing else to read", relies: 30, hide: true, gone: true, comes: true},
		{name: "a merge asks for nothing", relies: 0, hide: true, comes: true, clean: catalog.Spotless},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newLosing(t)
			l := r.lead(0, func(l *memLog) { l.segments(3) })
			r.tiered(0, 30)
			r.remember()
			before := r.rows(0)
			low := r.rewrite(0, 10, 30)
			high := r.rewrite(10, 20, c.relies)
			r.lose()
			if c.hide {
				for i := range r.kept {
					if r.kept[i].Attempt == low.Attempt {
						r.kept[i].Replaced = []string{"unknown"}
					}
				}
			}
			if c.gone {
				r.remove(before[1])
			}
			r.report()
			r.reclaim()
			want := []string{low.Key, before[1].Key, before[2].Key}
			if c.hide {
				want[0] = before[0].Key
			}
			if c.comes {
				want[1] = high.Key
				require.Equal(t, c.clean, r.rows(0)[1].CleanSince)
			}
			require.Equal(t, want, keysOf(r.rows(0)))
			r.settled(l, 30)
		})
	}
}

// R1: a swap that garbage names does not come back, nor does one whose object is not what its row says.
func TestR1_ALostSwapThatIsGarbage(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.remember()
	before := r.rows(0)
	first, second := r.rewrite(0, 10, 20), r.rewrite(10, 20, 20)
	r.lose()
	r.report()
	_, err := r.cat.DiscardStrays(r.ctx, []catalog.ObjectName{{Key: first.Key, Attempt: first.Attempt}})
	require.NoError(t, err)
	r.remove(second)
	r.reclaim()
	require.Equal(t, keysOf(before), keysOf(r.rows(0)))
	r.settled(l, 20)
}

// R4, R10: a swap comes back once, whatever becomes of the answer, and not under a leadership that is over.
func TestR4_ALostSwapWhoseAnswerIsLost(t *testing.T) {
	r := newLosing(t)
	l := r.lead(0, func(l *memLog) { l.segments(2) })
	r.tiered(0, 20)
	r.remember()
	before := r.rows(0)
	swap := r.rewrite(0, 20, 0)
	r.remove(before...)
	r.lose()
	r.report()
	old := r.guard(0)
	r.elect(0)
	_, err := r.tier.Reclaim(r.ctx, r.p(0), old)
	require.ErrorIs(t, err, catalog.ErrFenced)
	failures := 3
	r.cat.set(func(op string, done bool) error {
		if op == "swaplost" && failures > 0 && (done || failures > 1) {
			failures--
			return errInjected
		}
		return nil
	})
	for range 3 {
		_, err = r.tier.Reclaim(r.ctx, r.p(0), r.guard(0))
		require.ErrorIs(t, err, errInjected)
	}
	_, err = r.tier.Reclaim(r.ctx, r.p(0), r.guard(0))
	require.NoError(t, err)
	require.Equal(t, []string{swap.Key}, keysOf(r.rows(0)))
	r.settled(l, 20)
}
