package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
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
}

func (w *World) reportLost(rows ...catalog.Segment) int {
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
	return rows
}
