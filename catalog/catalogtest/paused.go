package catalogtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/catalog/relational"
)

// Paused is a driver on which Between, unless it is nil, is called once before the next transaction that writes: what
// others do while a call of several transactions stands between two of them.
type Paused struct {
	relational.DB
	Between func()
}

// Write is relational.DB's.
func (p *Paused) Write(ctx context.Context, lane relational.Lane, decide func(relational.Tx) error) error {
	if between := p.Between; between != nil {
		p.Between = nil
		between()
	}
	return p.DB.Write(ctx, lane, decide)
}

// ListedLate is a story of two brokers that remove: slow, on the driver paused, has read what is due; before it notes
// that, the other one lists the same rows and deletes their objects. The late note must not count as a listing for the
// second DELETE, which would drop the rows a day too early: the attempts would be named by nothing, and whoever has
// published them would take them for lost.
func ListedLate(w *World, slow catalog.Store, paused *Paused) {
	p := w.OnePartition()
	published := p.Upload(0, 10)
	j := p.Merge(1, 0)
	by := p.AnnounceFor(j, p.rewritten(0, 10, 1))
	require.NoError(w.T, w.S.Swap(w.Ctx, j, idsOf(published), []catalog.Segment{by}))
	const again = 24 * time.Hour
	remove := func(s catalog.Store, due []catalog.GarbageRow, deletes int) {
		require.Len(w.T, due, 1)
		require.Equal(w.T, deletes, due[0].Deletes)
		is, err := s.GarbageIs(w.Ctx, due[0].Key)
		require.NoError(w.T, err)
		require.True(w.T, is)
		require.NoError(w.T, s.Deleted(w.Ctx, due[0].Key))
	}
	paused.Between = func() {
		due, err := w.S.DueGarbage(w.Ctx, 0, again, 10)
		require.NoError(w.T, err)
		remove(w.S, due, 0)
	}
	due, err := slow.DueGarbage(w.Ctx, 0, again, 10)
	require.NoError(w.T, err)
	require.Nil(w.T, paused.Between, "the list was noted")
	remove(slow, due, 0)

	named, err := w.S.Named(w.Ctx, []catalog.ObjectName{{Key: published.Key, Attempt: published.Attempt}})
	require.NoError(w.T, err)
	require.Equal(w.T, map[string]catalog.Naming{published.Key: catalog.NamedAsGarbage}, named, "it was deleted once; the second DELETE is a day later")
	require.Zero(w.T, w.reportLost(published, by), "nothing is lost")
	due, err = w.S.DueGarbage(w.Ctx, time.Hour, 0, 10)
	require.NoError(w.T, err)
	remove(w.S, due, 1)
	require.Empty(w.T, w.Garbage())
}
