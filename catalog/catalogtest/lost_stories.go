package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var lostStories = []story{
	{"H2 H3 a published row that nothing names is kept until it is settled, the farthest reaching first", func(w *World) {
		p := w.OnePartition()
		live := p.Upload(0, 10)
		intended := p.Announce(p.Segment(10, 20))
		short, long := p.Segment(10, 20), p.Segment(10, 30)
		long.SHA256[3], long.CleanSince = 9, catalog.Spotless
		require.Zero(w.T, w.reportLost(live, intended))
		require.Empty(w.T, w.lostPartitions())
		for range 2 {
			require.Equal(w.T, 2, w.reportLost(live, short, intended, long))
		}
		require.Equal(w.T, []catalog.PartitionID{p.ID}, w.lostPartitions())
		require.Equal(w.T, []catalog.Segment{long, short}, p.lost(), "whole rows come back")
		require.Equal(w.T, "[0,10)", p.Ranges(), "a report makes nothing exist")
		require.NoError(w.T, w.S.SettleLost(w.Ctx, []string{long.Attempt}))
		require.Equal(w.T, []catalog.Segment{short}, p.lost())
		require.NoError(w.T, w.S.SettleLost(w.Ctx, []string{short.Attempt, short.Attempt}))
		require.NoError(w.T, w.S.SettleLost(w.Ctx, nil))
		require.Empty(w.T, w.lostPartitions())
	}},
	{"R1 what a garbage row names is not lost, nor is what lies below start", func(w *World) {
		p := w.OnePartition()
		given := p.Announce(p.Segment(0, 10))
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, given.Attempt))
		removed := p.Upload(0, 10)
		p.Upload(10, 20)
		_, _, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, 10)
		require.NoError(w.T, err)
		require.Zero(w.T, w.reportLost(given, removed, p.Segment(5, 10)))
		require.Equal(w.T, 1, w.reportLost(p.Segment(5, 11)))
	}},
	{"H2 a deleted topic is not revived by what was published of it, one that nobody knows may have been lost", func(w *World) {
		p, other := w.OnePartition(), w.OnePartition()
		a := p.Segment(0, 10)
		require.Equal(w.T, 1, w.reportLost(a))
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic))
		require.Empty(w.T, w.lostPartitions())
		require.Zero(w.T, w.reportLost(a, p.Segment(10, 20)))
		for {
			more, err := w.S.PurgeStep(w.Ctx, 0)
			require.NoError(w.T, err)
			if !more {
				break
			}
		}
		require.Empty(w.T, p.lost())
		require.Zero(w.T, w.reportLost(a), "its tombstone says so")
		stranger := other.Segment(0, 10)
		stranger.Partition.Topic = catalog.NewUUID()
		require.Equal(w.T, 1, w.reportLost(stranger))
		require.Empty(w.T, w.lostPartitions(), "nobody can lead it yet")
	}},
	{"model finding 3 a lost row comes back through its intent, not where garbage names the key", func(w *World) {
		p := w.OnePartition()
		s := p.Segment(0, 10)
		require.Equal(w.T, 1, w.reportLost(s))
		n, err := w.S.DiscardStrays(w.Ctx, []catalog.ObjectName{{Key: s.Key, Attempt: s.Attempt}})
		require.NoError(w.T, err)
		require.Equal(w.T, 1, n)
		require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, p.Intent(s)), catalog.ErrGarbage)
		_, err = w.S.Publish(w.Ctx, p.Guard, s)
		require.ErrorIs(w.T, err, catalog.ErrIntentGone)
		require.Zero(w.T, w.reportLost(s))
	}},
	{"R4 a lost swap comes back under the leader's guard in the place of the rows that it replaced", func(w *World) {
		p := w.OnePartition()
		a, b, c := p.Upload(0, 10), p.Upload(10, 20), p.Upload(20, 30)
		n := p.rewritten(0, 20, 1)
		n.Bytes = 150
		require.Equal(w.T, 1, w.reportPublished(catalog.Publication{Segment: n, Replaced: []string{a.Attempt, b.Attempt}, Relies: 30}))
		kept, err := w.S.LostSegments(w.Ctx, p.ID)
		require.NoError(w.T, err)
		require.Equal(w.T, []catalog.Publication{{Segment: n, Replaced: []string{a.Attempt, b.Attempt}, Relies: 30}}, kept)
		_, err = w.S.SwapLost(w.Ctx, p.Guard, idsOf(a, b), n)
		require.ErrorIs(w.T, err, catalog.ErrIntentGone, "not without its intent")
		p.Announce(n)
		old := p.Guard
		old.Epoch--
		_, err = w.S.SwapLost(w.Ctx, old, idsOf(a, b), n)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		w.WithoutCounter(func() {
			for range 2 { // K5
				after, err := w.S.SwapLost(w.Ctx, p.Guard, idsOf(a, b), n)
				require.NoError(w.T, err)
				require.Equal(w.T, catalog.Bounds{Tiered: 30, TierBytes: 250}, after)
			}
		})
		require.Equal(w.T, "[0,20) [20,30)", p.Ranges())
		require.Equal(w.T, catalog.Bounds{Tiered: 30, TierBytes: 250}, p.Row().Bounds)
		require.ElementsMatch(w.T, []string{a.Key, b.Key}, w.Garbage())
		require.Empty(w.T, p.Attempts())
		row, err := w.S.SegmentAt(w.Ctx, p.ID, 25)
		require.NoError(w.T, err)
		require.Equal(w.T, c.ID, row.ID)
	}},
	{"A21 a lost swap of rows that are not live, not whole, or as new as it is refused", func(w *World) {
		p := w.OnePartition()
		a, b, c := p.Upload(0, 10), p.Upload(10, 20), p.Upload(20, 30)
		try := func(s catalog.Segment, old ...catalog.Segment) error {
			p.Announce(s)
			_, err := w.S.SwapLost(w.Ctx, p.Guard, idsOf(old...), s)
			return err
		}
		require.ErrorIs(w.T, try(p.rewritten(0, 15, 1), a, b), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(p.rewritten(5, 20, 1), a, b), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(p.rewritten(0, 30, 1), a, c), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(p.rewritten(0, 25, 1), a, b), catalog.ErrNotContiguous, "tiered is 30")
		require.ErrorIs(w.T, try(p.rewritten(0, 20, 0), a, b), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(p.rewritten(0, 20, 1), a, catalog.Segment{ID: 1 << 40}), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(p.rewritten(0, 20, 1)), catalog.ErrInvalid)
		require.Equal(w.T, "[0,10) [10,20) [20,30)", p.Ranges())
	}},
	{"H3 a lost swap may reach over uploads that are lost too, where its rows end at tiered", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 10)
		b := p.Upload(10, 20)
		n := p.Announce(p.rewritten(10, 40, 1))
		bounds, err := w.S.SwapLost(w.Ctx, p.Guard, idsOf(b), n)
		require.NoError(w.T, err)
		require.EqualValues(w.T, 40, bounds.Tiered)
		require.Equal(w.T, "[0,10) [10,40)", p.Ranges())
		require.Equal(w.T, bounds, p.Row().Bounds)
		p.Upload(40, 50)
	}},
	{"H3 what only a job's intent names is kept and not counted, and comes back by it", func(w *World) {
		p := w.OnePartition()
		a := p.Upload(0, 10)
		j := p.Merge(1, 0)
		n := p.AnnounceFor(j, p.rewritten(0, 10, 1))
		require.Zero(w.T, w.reportPublished(catalog.Publication{Segment: n, Replaced: []string{a.Attempt}}))
		require.Equal(w.T, []catalog.Segment{n}, p.lost())
		_, err := w.S.SwapLost(w.Ctx, p.Guard, idsOf(a), n)
		require.NoError(w.T, err)
		require.NoError(w.T, w.S.Swap(w.Ctx, j, idsOf(a), []catalog.Segment{n}), "the job's own is answered as done")
		require.NoError(w.T, w.S.EndJob(w.Ctx, j))
		require.Equal(w.T, []string{a.Key}, w.Garbage())
	}},
}

// rewritten is a segment as a merge or compaction makes it.
func (p *Partition) rewritten(base, next record.Offset, generation int32) catalog.Segment {
	s := p.Segment(base, next)
	s.Generation = generation
	return s
}

func (w *World) reportLost(rows ...catalog.Segment) int {
	w.T.Helper()
	all := make([]catalog.Publication, len(rows))
	for i, s := range rows {
		all[i].Segment = s
	}
	return w.reportPublished(all...)
}

func (w *World) reportPublished(rows ...catalog.Publication) int {
	w.T.Helper()
	n, err := w.S.ReportLost(w.Ctx, rows)
	require.NoError(w.T, err)
	return n
}

func (w *World) lostPartitions() []catalog.PartitionID {
	w.T.Helper()
	ids, err := w.S.LostPartitions(w.Ctx)
	require.NoError(w.T, err)
	return ids
}

func (p *Partition) lost() []catalog.Segment {
	p.T.Helper()
	rows, err := p.S.LostSegments(p.Ctx, p.ID)
	require.NoError(p.T, err)
	out := make([]catalog.Segment, len(rows))
	for i, r := range rows {
		out[i] = r.Segment
	}
	return out
}
