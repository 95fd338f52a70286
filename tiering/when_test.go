package tiering

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
)

// TestB10_TimeLookupsAreClampedToTheRange that may be addressed (B12).
func TestB10_TimeLookupsAreClampedToTheRange(t *testing.T) {
	r := newRig(t, nil)
	r.lead(0, func(l *memLog) { l.clock = 0; l.segments(1) }) // 0..9, timestamps 0,1000,..,9000
	r.tiered(0, 10)
	ask := func(from, bound record.Offset, ts int64) record.Offset {
		f, ok, err := r.tier.OffsetForTime(r.ctx, TimeQuery{r.p(0), from, bound}, ts)
		require.NoError(t, err)
		if !ok {
			return -1
		}
		require.GreaterOrEqual(t, f.Timestamp, ts)
		return f.Offset
	}
	require.Equal(t, record.Offset(6), ask(0, 10, 6000))
	require.Equal(t, record.Offset(7), ask(0, 10, 6500))
	require.Equal(t, record.Offset(-1), ask(0, 10, 9001))
	require.Equal(t, record.Offset(5), ask(5, 10, 0))
	require.Equal(t, record.Offset(5), ask(5, 10, 4000))
	require.Equal(t, record.Offset(-1), ask(0, 6, 6000))
	f, ok, err := r.tier.MaxTimestamp(r.ctx, TimeQuery{r.p(0), 0, 10})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, Found{Offset: 9, Timestamp: 9000}, f)
	f, _, err = r.tier.MaxTimestamp(r.ctx, TimeQuery{r.p(0), 0, 5})
	require.NoError(t, err)
	require.Equal(t, record.Offset(4), f.Offset)
}

// TestH25_TimesOutOfOrder holds look-ups by time against a walk of all records, with start anywhere.
func TestH25_TimesOutOfOrder(t *testing.T) {
	r := newRig(t, nil)
	n := int32(0)
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n >= partitions {
			return
		}
		type rec struct {
			o  record.Offset
			ts int64
		}
		var recs []rec
		l := r.lead(n, func(l *memLog) {
			for range rapid.IntRange(1, 5).Draw(rt, "segments") {
				for range rapid.IntRange(1, 4).Draw(rt, "batches") {
					l.clock = int64(rapid.IntRange(0, 20).Draw(rt, "clock")) * 1000
					k := rapid.IntRange(1, 3).Draw(rt, "n")
					for i := range k {
						recs = append(recs, rec{l.next + record.Offset(i), l.clock + int64(i)*1000})
					}
					l.batch(k)
				}
				l.seal()
			}
		})
		r.tiered(n, l.next)
		start := record.Offset(rapid.IntRange(0, int(l.next)-1).Draw(rt, "start"))
		_, _, err := r.cat.MoveStart(r.ctx, r.p(n), r.guard(n), start)
		require.NoError(rt, err)
		r.tier.Forget(r.p(n), start)
		q := TimeQuery{r.p(n), start, l.next}
		for ts := int64(-1000); ts <= 23_000; ts += 1000 {
			want := rec{-1, -1}
			for _, x := range recs {
				if x.o >= start && x.ts >= ts {
					want = x
					break
				}
			}
			f, ok, err := r.tier.OffsetForTime(r.ctx, q, ts)
			require.NoError(rt, err)
			require.Equal(rt, want.o >= 0, ok, "ts %d start %d", ts, start)
			if ok {
				require.Equal(rt, want, rec{f.Offset, f.Timestamp}, "ts %d start %d", ts, start)
			}
		}
		best := rec{-1, -1}
		for _, x := range recs {
			if x.o >= start && x.ts > best.ts {
				best = x
			}
		}
		f, ok, err := r.tier.MaxTimestamp(r.ctx, q)
		require.NoError(rt, err)
		require.True(rt, ok)
		require.Equal(rt, best, rec{f.Offset, f.Timestamp})
		r.tier.Unlead(r.p(n))
	})
}

// TestB13_B15_U12_RewindsAreCheap: two GETs at most to any time or offset, the largest time (-3) too, of many objects.
func TestB13_B15_U12_RewindsAreCheap(t *testing.T) {
	r := newRig(t, nil)
	l := r.lead(0, func(l *memLog) { l.segments(60) })
	r.tiered(0, 600)
	r.store.forgetCounts()
	used := 0
	step := func(what string) {
		gets, _, _ := r.store.counts()
		require.LessOrEqual(t, len(gets)-used, 2, what)
		used = len(gets)
	}
	q := TimeQuery{r.p(0), 0, 600}
	_, ok, err := r.tier.OffsetForTime(r.ctx, q, l.clock+1)
	require.NoError(t, err)
	require.False(t, ok)
	step("beyond the last")
	f, _, err := r.tier.OffsetForTime(r.ctx, q, 0)
	require.NoError(t, err)
	require.Equal(t, record.Offset(0), f.Offset)
	step("before the first")
	f, _, err = r.tier.OffsetForTime(r.ctx, q, 1_000+333_000)
	require.NoError(t, err)
	require.Equal(t, record.Offset(333), f.Offset)
	step("in the middle")
	f, _, err = r.tier.MaxTimestamp(r.ctx, q)
	require.NoError(t, err)
	require.Equal(t, record.Offset(599), f.Offset)
	step("the largest")
	c, err := r.tier.Read(r.ctx, ReadRequest{Partition: r.p(0), From: 455, Bound: 600, MaxBytes: 100, AtLeastOne: true, Committed: true})
	require.NoError(t, err)
	require.Empty(t, c.Aborted)
	c.Release()
	step("by offset")
}
