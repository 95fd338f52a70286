package catalogtest

import (
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
)

var clusterStories = []story{
	{"the cluster has an id for ever", func(w *World) {
		row, err := w.S.Cluster(w.Ctx)
		require.NoError(w.T, err)
		require.NotZero(w.T, row.ID)
		require.Equal(w.T, 1, row.Level)
		again, err := w.S.Cluster(w.Ctx)
		require.NoError(w.T, err)
		require.Equal(w.T, row, again)
	}},
	{"the database has a clock", func(w *World) {
		now, err := w.S.Time(w.Ctx)
		require.NoError(w.T, err)
		require.WithinDuration(w.T, time.Now(), now, time.Minute)
	}},
	{"H14 producer ids begin at random prefixes and never meet", func(w *World) {
		type block struct{ first, last int64 }
		var all []block
		for range 50 {
			first, err := w.S.ProducerIDs(w.Ctx, 1, 1000)
			require.NoError(w.T, err)
			require.GreaterOrEqual(w.T, first, int64(0))
			require.Less(w.T, first, int64(math.MaxInt64-1000))
			for _, b := range all {
				require.False(w.T, first <= b.last && b.first <= first+999, "blocks meet")
			}
			all = append(all, block{first, first + 999})
		}
	}},
	{"a block of no ids is refused", func(w *World) {
		for _, n := range []int{0, -1, 1<<16 + 1} {
			_, err := w.S.ProducerIDs(w.Ctx, 1, n)
			require.ErrorIs(w.T, err, catalog.ErrInvalid)
		}
	}},
}
