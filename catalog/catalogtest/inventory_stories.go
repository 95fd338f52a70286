package catalogtest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var inventoryStories = []story{
	{"rows of all partitions come by id, page by page", func(w *World) {
		p, q := w.OnePartition(), w.OnePartition()
		want := []string{p.Upload(0, 10).Key, q.Upload(0, 5).Key, p.Upload(10, 20).Key}
		var got []string
		for after := catalog.SegmentID(0); ; {
			page, err := w.S.SegmentsAfter(w.Ctx, after, 2)
			require.NoError(w.T, err)
			for _, r := range page {
				got, after = append(got, r.Key), r.ID
			}
			if len(page) < 2 {
				break
			}
		}
		require.Equal(w.T, want, got)
	}},
	{"offsets of all groups come by key, page by page", func(w *World) {
		p := w.OnePartition()
		slots := w.GiveSlots(1, 0, 1, 2, 3, 4)
		var ws []catalog.OffsetWrite
		for i := range 5 {
			ws = append(ws, catalog.OffsetWrite{Guard: slots[i], CommittedOffset: catalog.CommittedOffset{
				Group: fmt.Sprintf("g%d", i), Partition: p.ID, Offset: 7, LeaderEpoch: -1, CommitTime: time.UnixMilli(5000)}})
		}
		_, err := w.S.CommitOffsets(w.Ctx, ws)
		require.NoError(w.T, err)
		var got []string
		after := catalog.CommittedOffset{}
		for {
			page, err := w.S.OffsetsAfter(w.Ctx, after, 2)
			require.NoError(w.T, err)
			for _, o := range page {
				got, after = append(got, o.Group), o
				require.Equal(w.T, ws[0].Partition, o.Partition)
				require.EqualValues(w.T, 7, o.Offset)
			}
			if len(page) < 2 {
				break
			}
		}
		require.Equal(w.T, []string{"g0", "g1", "g2", "g3", "g4"}, got)
	}},
	{"R1 R8 what nothing names becomes garbage, and nothing else", func(w *World) {
		p := w.OnePartition()
		live, announced := p.Upload(0, 10), p.Announce(p.Segment(10, 20))
		given := p.Announce(p.Segment(20, 30))
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, given.Attempt))
		stray := p.Segment(30, 40)
		var all []catalog.ObjectName
		for _, s := range []catalog.Segment{live, announced, given, stray} {
			all = append(all, catalog.ObjectName{Key: s.Key, Attempt: s.Attempt})
		}
		named, err := w.S.Named(w.Ctx, all)
		require.NoError(w.T, err)
		require.Equal(w.T, map[string]catalog.Naming{live.Key: catalog.NamedLive, announced.Key: catalog.NamedByIntent,
			given.Key: catalog.NamedAsGarbage}, named)
		for _, want := range []int{1, 0} {
			n, err := w.S.DiscardStrays(w.Ctx, all)
			require.NoError(w.T, err)
			require.Equal(w.T, want, n)
		}
		require.ElementsMatch(w.T, []string{given.Key, stray.Key}, w.Garbage())
		require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, p.Intent(stray)), catalog.ErrGarbage)
	}},
	{"H2 the generation rises once", func(w *World) {
		row, err := w.S.Cluster(w.Ctx)
		require.NoError(w.T, err)
		for range 2 {
			got, err := w.S.RaiseGeneration(w.Ctx, row.Generation)
			require.NoError(w.T, err)
			require.Equal(w.T, row.Generation+1, got.Generation)
		}
	}},
}
