package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var segmentStories = []story{
	{"a row comes back as it was published", func(w *World) {
		p := w.OnePartition()
		s := p.Segment(0, 10)
		s.CleanSince, s.Generation = 77, 0
		row := p.Publish(p.Announce(s))
		s.ID, s.MaxTimestampUpto = row.ID, s.MaxTimestamp
		require.Equal(w.T, s, row)
	}},
	{"every offset of the tier is in one row, others in none", func(w *World) {
		p := w.OnePartition()
		for o := range 5 {
			p.Upload(record.Offset(o*10), record.Offset(o*10+10))
		}
		for o := range 50 {
			s, err := w.S.SegmentAt(w.Ctx, p.ID, record.Offset(o))
			require.NoError(w.T, err)
			require.Equal(w.T, record.Offset(o/10*10), s.Base)
		}
		for _, o := range []int{-1, 50, 1000} {
			_, err := w.S.SegmentAt(w.Ctx, p.ID, record.Offset(o))
			require.ErrorIs(w.T, err, catalog.ErrNotFound)
		}
		rows, err := w.S.ListSegments(w.Ctx, p.ID, 15, 2)
		require.NoError(w.T, err)
		require.Len(w.T, rows, 2)
		require.Equal(w.T, record.Offset(10), rows[0].Base, "from the row that covers the offset")
		rows, err = w.S.ListSegments(w.Ctx, p.ID, 50, 2)
		require.NoError(w.T, err)
		require.Empty(w.T, rows)
	}},
	{"H25 a time is found where timestamps are out of order", h25Order},
	{"H25 a time is found while max_ts_upto still shows removed rows", h25Removed},
	{"records without timestamps are nobody's answer", func(w *World) {
		p := w.OnePartition()
		s := p.Segment(0, 10)
		s.MinTimestamp, s.MaxTimestamp = -1, -1
		p.Publish(p.Announce(s))
		_, err := w.S.SegmentAtTime(w.Ctx, p.ID, 0)
		require.ErrorIs(w.T, err, catalog.ErrNotFound)
		_, err = w.S.LatestInTime(w.Ctx, w.OnePartition().ID)
		require.ErrorIs(w.T, err, catalog.ErrNotFound)
	}},
}

// uploadWithTimes uploads one row of ten offsets per largest timestamp.
func (p *Partition) uploadWithTimes(maxes ...int64) {
	p.T.Helper()
	for _, m := range maxes {
		o := p.Row().Tiered
		s := p.Segment(o, o+10)
		s.MinTimestamp, s.MaxTimestamp = m-5, m
		p.Publish(p.Announce(s))
	}
}

// atTime is how a reader uses the two lookups, for rows whose records of a time are all above start.
func (p *Partition) atTime(ts int64) int64 {
	p.T.Helper()
	s, err := p.S.SegmentAtTime(p.Ctx, p.ID, ts)
	if err == nil && s.MaxTimestamp < ts {
		s, err = p.S.NextAtTime(p.Ctx, p.ID, s.Next, ts)
	}
	if err != nil {
		require.ErrorIs(p.T, err, catalog.ErrNotFound)
		return -1
	}
	return int64(s.Base)
}

func h25Order(w *World) {
	p := w.OnePartition()
	p.uploadWithTimes(100, 50, 200, 150, 300)
	for ts, base := range map[int64]int64{40: 0, 100: 0, 101: 20, 200: 20, 201: 40, 300: 40, 301: -1} {
		require.Equal(w.T, base, p.atTime(ts), "timestamp %d", ts)
	}
	next, err := w.S.NextAtTime(w.Ctx, p.ID, 10, 60)
	require.NoError(w.T, err)
	require.Equal(w.T, record.Offset(20), next.Base)
	latest, err := w.S.LatestInTime(w.Ctx, p.ID)
	require.NoError(w.T, err)
	require.Equal(w.T, record.Offset(40), latest.Base)
	p.uploadWithTimes(300)
	latest, err = w.S.LatestInTime(w.Ctx, p.ID)
	require.NoError(w.T, err)
	require.Equal(w.T, record.Offset(40), latest.Base, "the lowest of equals")
}

func h25Removed(w *World) {
	p := w.OnePartition()
	p.uploadWithTimes(100, 50, 70, 200)
	_, _, err := w.S.MoveStart(w.Ctx, p.ID, p.Guard, 10)
	require.NoError(w.T, err)
	for ts, base := range map[int64]int64{40: 10, 60: 20, 80: 30, 200: 30, 201: -1} {
		require.Equal(w.T, base, p.atTime(ts), "timestamp %d", ts)
	}
	rows, err := w.S.ListSegments(w.Ctx, p.ID, 0, 10)
	require.NoError(w.T, err)
	var upto []int64
	for _, r := range rows {
		upto = append(upto, r.MaxTimestampUpto)
	}
	require.Equal(w.T, []int64{50, 70, 200}, upto)
}
