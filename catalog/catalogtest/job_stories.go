package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// Merge takes the merge job of the partition for a broker.
func (p *Partition) Merge(b catalog.BrokerID, seen int64) catalog.Job {
	p.T.Helper()
	j, err := p.S.TakeJob(p.Ctx, p.ID, "merge", b, p.Inc[b], seen)
	require.NoError(p.T, err)
	return j
}

// AnnounceFor puts the intent of s under a job.
func (p *Partition) AnnounceFor(j catalog.Job, s catalog.Segment) catalog.Segment {
	p.T.Helper()
	require.NoError(p.T, p.S.PutJobIntent(p.Ctx, j, p.Intent(s)))
	return s
}

func idsOf(rows ...catalog.Segment) []catalog.SegmentID {
	var out []catalog.SegmentID
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

var jobStories = []story{
	{"a job is taken by one; another has to see its lease stand still", func(w *World) {
		p := w.OnePartition()
		w.Register(2)
		j := p.Merge(1, 0)
		_, err := w.S.TakeJob(w.Ctx, p.ID, "merge", 2, w.Inc[2], 0)
		require.ErrorIs(w.T, err, catalog.ErrHeld)
		renewed, err := w.S.RenewJob(w.Ctx, j)
		require.NoError(w.T, err)
		require.Equal(w.T, j.Lease+1, renewed.Lease)
		_, err = w.S.TakeJob(w.Ctx, p.ID, "merge", 2, w.Inc[2], j.Lease)
		require.ErrorIs(w.T, err, catalog.ErrHeld)
		k := p.Merge(2, renewed.Lease)
		require.Equal(w.T, j.Epoch+1, k.Epoch)
		_, err = w.S.RenewJob(w.Ctx, renewed)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
		require.ErrorIs(w.T, w.S.PutJobIntent(w.Ctx, j, p.Intent(p.Segment(0, 10))), catalog.ErrFenced)
		require.ErrorIs(w.T, w.S.EndJob(w.Ctx, j), catalog.ErrFenced)
		_, err = w.S.TakeJob(w.Ctx, p.ID, "compact", 1, w.Inc[1], 0)
		require.NoError(w.T, err, "another kind is another job")
		_, err = w.S.TakeJob(w.Ctx, p.ID, "merge", 2, w.Inc[2]+1, k.Lease)
		require.ErrorIs(w.T, err, catalog.ErrFenced)
	}},
	{"a swap replaces whole rows by their union and keeps the bytes right (H30)", func(w *World) {
		p := w.OnePartition()
		a, b, c := p.Upload(0, 10), p.Upload(10, 20), p.Upload(20, 30)
		j := p.Merge(1, 0)
		n := p.Segment(0, 20)
		n.Bytes, n.Generation = 150, 1
		p.AnnounceFor(j, n)
		w.WithoutCounter(func() {
			for range 2 { // K5
				require.NoError(w.T, w.S.Swap(w.Ctx, j, idsOf(a, b), []catalog.Segment{n}))
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
	{"A21 a swap that is not exactly whole rows is refused", func(w *World) {
		p := w.OnePartition()
		a, b, c := p.Upload(0, 10), p.Upload(10, 20), p.Upload(20, 30)
		j := p.Merge(1, 0)
		try := func(old []catalog.SegmentID, ranges ...[2]record.Offset) error {
			var rows []catalog.Segment
			for _, r := range ranges {
				rows = append(rows, p.AnnounceFor(j, p.Segment(r[0], r[1])))
			}
			return w.S.Swap(w.Ctx, j, old, rows)
		}
		type rs = [2]record.Offset
		require.ErrorIs(w.T, try(idsOf(a, b), rs{5, 14}), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(idsOf(a, c), rs{0, 30}), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(idsOf(a, b), rs{0, 10}, rs{12, 20}), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(idsOf(a, b), rs{0, 21}), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(idsOf(a, catalog.Segment{ID: 1 << 40}), rs{0, 20}), catalog.ErrNotContiguous)
		require.ErrorIs(w.T, try(nil, rs{0, 20}), catalog.ErrInvalid)
		require.Equal(w.T, "[0,10) [10,20) [20,30)", p.Ranges())
		require.NoError(w.T, try(idsOf(a, b), rs{0, 5}, rs{5, 20}))
		require.Equal(w.T, "[0,5) [5,20) [20,30)", p.Ranges())
	}},
	{"A20 of two workers on one input one wins", func(w *World) {
		p := w.OnePartition()
		w.Register(2)
		a, b := p.Upload(0, 10), p.Upload(10, 20)
		j := p.Merge(1, 0)
		first := p.AnnounceFor(j, p.Segment(0, 20))
		k := p.Merge(2, j.Lease)
		second := p.AnnounceFor(k, p.Segment(0, 20))
		require.ErrorIs(w.T, w.S.Swap(w.Ctx, j, idsOf(a, b), []catalog.Segment{first}), catalog.ErrFenced)
		require.NoError(w.T, w.S.Swap(w.Ctx, k, idsOf(a, b), []catalog.Segment{second}))
		require.NoError(w.T, w.S.EndJob(w.Ctx, k))
		require.NoError(w.T, w.S.EndJob(w.Ctx, k), "K5")
		require.ElementsMatch(w.T, []string{a.Key, b.Key, first.Key}, w.Garbage())
		require.Equal(w.T, "[0,20)", p.Ranges())
	}},
	{"a swap without its intent is decided by another (H1)", func(w *World) {
		p := w.OnePartition()
		a := p.Upload(0, 10)
		j := p.Merge(1, 0)
		n := p.AnnounceFor(j, p.Segment(0, 10))
		g := catalog.Guard{Broker: j.Broker, Incarnation: j.Incarnation, Epoch: record.Epoch(j.Epoch)}
		require.NoError(w.T, w.S.SetUploadID(w.Ctx, n.Attempt, g, "u"))
		require.NoError(w.T, w.S.GiveUp(w.Ctx, g, n.Attempt), "the job gives up its own")
		require.ErrorIs(w.T, w.S.Swap(w.Ctx, j, idsOf(a), []catalog.Segment{n}), catalog.ErrIntentGone)
		require.Equal(w.T, "[0,10)", p.Ranges())
	}},
	{"A13 a job of a deleted topic swaps nothing", func(w *World) {
		p := w.OnePartition()
		a := p.Upload(0, 10)
		j := p.Merge(1, 0)
		n := p.AnnounceFor(j, p.Segment(0, 10))
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic))
		require.ErrorIs(w.T, w.S.Swap(w.Ctx, j, idsOf(a), []catalog.Segment{n}), catalog.ErrUnknownTopic)
		_, err := w.S.TakeJob(w.Ctx, p.ID, "merge", 1, w.Inc[1], 0)
		require.ErrorIs(w.T, err, catalog.ErrUnknownTopic)
		_, err = w.S.PurgeStep(w.Ctx, 100)
		require.NoError(w.T, err)
		require.ElementsMatch(w.T, []string{a.Key, n.Key}, w.Garbage())
	}},
	{"H25 a swap keeps times findable", func(w *World) {
		p := w.OnePartition()
		p.uploadWithTimes(100, 50, 70, 200)
		rows, err := w.S.ListSegments(w.Ctx, p.ID, 0, 2)
		require.NoError(w.T, err)
		j := p.Merge(1, 0)
		n := p.Segment(0, 20)
		n.MinTimestamp, n.MaxTimestamp = 10, 45 // the record of 100 superseded
		p.AnnounceFor(j, n)
		require.NoError(w.T, w.S.Swap(w.Ctx, j, idsOf(rows...), []catalog.Segment{n}))
		for ts, base := range map[int64]int64{40: 0, 46: 20, 70: 20, 71: 30, 201: -1} {
			require.Equal(w.T, base, p.atTime(ts), "timestamp %d", ts)
		}
	}},
	{"whoever meets a held job learns its lease, to watch it", func(w *World) {
		p := w.OnePartition()
		j := p.Merge(1, 0)
		seen, err := w.S.TakeJob(w.Ctx, p.ID, "merge", catalog.NoBroker, 77, 0)
		require.ErrorIs(w.T, err, catalog.ErrHeld)
		require.Equal(w.T, j, seen)
		k, err := w.S.TakeJob(w.Ctx, p.ID, "merge", catalog.NoBroker, 77, seen.Lease)
		require.NoError(w.T, err, "a worker that is no broker may take it")
		require.Equal(w.T, j.Epoch+1, k.Epoch)
		_, err = w.S.TakeJob(w.Ctx, p.ID, "merge", catalog.NoBroker, 78, 0)
		require.ErrorIs(w.T, err, catalog.ErrHeld, "another worker is another holder")
		n := p.Segment(0, 10)
		require.NoError(w.T, w.S.PutJobIntent(w.Ctx, k, p.Intent(n)))
		require.NoError(w.T, w.S.EndJob(w.Ctx, k))
		require.Equal(w.T, []string{n.Key}, w.Garbage())
	}},
	{"R15 rows are marked clean by the job that holds them", func(w *World) {
		p := w.OnePartition()
		w.Register(2)
		a, b := p.Upload(0, 10), p.Upload(10, 20)
		j := p.Merge(1, 0)
		w.WithoutCounter(func() {
			require.NoError(w.T, w.S.MarkClean(w.Ctx, j, idsOf(a, catalog.Segment{ID: 1 << 40}), 4711))
		})
		require.NoError(w.T, w.S.MarkClean(w.Ctx, j, idsOf(b), catalog.Spotless))
		since := func(o record.Offset) int64 {
			row, err := w.S.SegmentAt(w.Ctx, p.ID, o)
			require.NoError(w.T, err)
			return row.CleanSince
		}
		require.EqualValues(w.T, 4711, since(0))
		require.Equal(w.T, catalog.Spotless, since(10))
		q := w.OnePartition()
		c := q.Upload(0, 10)
		require.NoError(w.T, w.S.MarkClean(w.Ctx, j, idsOf(c), 5), "another partition's row is passed over")
		row, err := w.S.SegmentAt(w.Ctx, q.ID, 0)
		require.NoError(w.T, err)
		require.Zero(w.T, row.CleanSince)
		p.Merge(2, j.Lease)
		require.ErrorIs(w.T, w.S.MarkClean(w.Ctx, j, idsOf(a), 1), catalog.ErrFenced)
		require.EqualValues(w.T, 4711, since(0))
	}},
}
