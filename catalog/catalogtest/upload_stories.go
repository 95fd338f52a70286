package catalogtest

import (
	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var uploadStories = []story{
	{"intent, publish: the intent is gone, tiered moves, the counter does not (H13)", func(w *World) {
		p := w.OnePartition()
		w.WithoutCounter(func() {
			s := p.Announce(p.Segment(0, 10))
			ins, err := w.S.Intents(w.Ctx, p.ID)
			require.NoError(w.T, err)
			require.Len(w.T, ins, 1)
			require.Equal(w.T, p.Guard, ins[0].Guard)
			require.Equal(w.T, s.Key, ins[0].Key)
			b, err := w.S.Publish(w.Ctx, p.Guard, s)
			require.NoError(w.T, err)
			require.Equal(w.T, catalog.Bounds{Start: 0, Tiered: 10, TierBytes: 100}, b)
			require.Empty(w.T, p.Attempts())
		})
	}},
	{"each part of the guard fences each write (R10)", guards},
	{"a publish continues the tier or is refused (R4, A21)", func(w *World) {
		p := w.OnePartition()
		p.Upload(0, 10)
		for _, r := range [][2]record.Offset{{0, 10}, {5, 15}, {9, 12}, {11, 20}, {0, 20}} {
			_, err := w.S.Publish(w.Ctx, p.Guard, p.Announce(p.Segment(r[0], r[1])))
			require.ErrorIs(w.T, err, catalog.ErrNotContiguous, "%v", r)
		}
		require.Equal(w.T, "[0,10)", p.Ranges())
		require.Len(w.T, p.Attempts(), 5, "a refused publish decides nothing")
	}},
	{"a publish that is not what its intent announced is refused", func(w *World) {
		p := w.OnePartition()
		s := p.Announce(p.Segment(0, 10))
		s.Next = 20
		_, err := w.S.Publish(w.Ctx, p.Guard, s)
		require.ErrorIs(w.T, err, catalog.ErrInvalid)
	}},
	{"K5 A16 every step repeated is answered as the first", k5Uploads},
	{"H1 publish, then give up: the row is live, the key is no garbage", func(w *World) {
		p := w.OnePartition()
		s := p.Upload(0, 10)
		require.ErrorIs(w.T, w.S.GiveUp(w.Ctx, p.Guard, s.Attempt), catalog.ErrIntentGone)
		require.Empty(w.T, w.Garbage())
		require.Equal(w.T, "[0,10)", p.Ranges())
	}},
	{"H1 give up, then publish: the key is garbage and never live", func(w *World) {
		p := w.OnePartition()
		s := p.Announce(p.Segment(0, 10))
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, s.Attempt))
		_, err := w.S.Publish(w.Ctx, p.Guard, s)
		require.ErrorIs(w.T, err, catalog.ErrIntentGone)
		require.Equal(w.T, []string{s.Key}, w.Garbage())
		require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, p.Intent(s)), catalog.ErrGarbage, "R1: the key is never used again")
		fresh := p.Segment(0, 10)
		fresh.Key = s.Key
		require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, p.Intent(fresh)), catalog.ErrGarbage, "nor under another attempt")
		p.Upload(0, 10)
	}},
	{"a multipart upload is in its intent and in its garbage", func(w *World) {
		p := w.OnePartition()
		s := p.Announce(p.Segment(0, 10))
		require.NoError(w.T, w.S.SetUploadID(w.Ctx, s.Attempt, p.Guard, "u1"))
		ins, err := w.S.Intents(w.Ctx, p.ID)
		require.NoError(w.T, err)
		require.Equal(w.T, "u1", ins[0].UploadID)
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, s.Attempt))
		rows, err := w.S.DueGarbage(w.Ctx, 0, 0, 10)
		require.NoError(w.T, err)
		require.Equal(w.T, "u1", rows[0].UploadID)
		require.ErrorIs(w.T, w.S.SetUploadID(w.Ctx, s.Attempt, p.Guard, "u2"), catalog.ErrIntentGone)
	}},
	{"a new leader publishes what the old one announced (H3)", func(w *World) {
		w.Register(1, 2)
		p := w.Led(w.Topic(1, 1, 2), 0)
		s := p.Announce(p.Segment(0, 10))
		q := p.Elect(2, 1, 2)
		q.Publish(s)
		require.Equal(w.T, "[0,10)", q.Ranges())
	}},
}

func guards(w *World) {
	p := w.OnePartition()
	s := p.Announce(p.Segment(0, 10))
	spoil := map[string]func(g *catalog.Guard){
		"broker":      func(g *catalog.Guard) { g.Broker = 2 },
		"incarnation": func(g *catalog.Guard) { g.Incarnation++ },
		"epoch":       func(g *catalog.Guard) { g.Epoch++ },
		"older epoch": func(g *catalog.Guard) { g.Epoch-- },
	}
	for part, change := range spoil {
		g := p.Guard
		change(&g)
		in := p.Intent(p.Segment(0, 10))
		in.Guard = g
		require.ErrorIs(w.T, w.S.PutIntent(w.Ctx, in), catalog.ErrFenced, part)
		require.ErrorIs(w.T, w.S.SetUploadID(w.Ctx, s.Attempt, g, "x"), catalog.ErrFenced, part)
		require.ErrorIs(w.T, w.S.GiveUp(w.Ctx, g, s.Attempt), catalog.ErrFenced, part)
		_, err := w.S.Publish(w.Ctx, g, s)
		require.ErrorIs(w.T, err, catalog.ErrFenced, part)
		_, _, err = w.S.MoveStart(w.Ctx, p.ID, g, 5)
		require.ErrorIs(w.T, err, catalog.ErrFenced, part)
	}
	require.Equal(w.T, []string{s.Attempt}, p.Attempts())
	require.Zero(w.T, p.Row().Bounds)
}

func k5Uploads(w *World) {
	p := w.OnePartition()
	s := p.Segment(0, 10)
	for range 2 {
		require.NoError(w.T, w.S.PutIntent(w.Ctx, p.Intent(s)))
	}
	for range 3 {
		b, err := w.S.Publish(w.Ctx, p.Guard, s)
		require.NoError(w.T, err)
		require.Equal(w.T, catalog.Bounds{Tiered: 10, TierBytes: 100}, b)
	}
	require.Equal(w.T, "[0,10)", p.Ranges())
	require.NoError(w.T, w.S.PutIntent(w.Ctx, p.Intent(s)), "the attempt is published")
	require.Empty(w.T, p.Attempts())

	lost := p.Announce(p.Segment(10, 20))
	for range 2 {
		require.NoError(w.T, w.S.GiveUp(w.Ctx, p.Guard, lost.Attempt))
	}
	require.Equal(w.T, []string{lost.Key}, w.Garbage())
	require.ErrorIs(w.T, w.S.GiveUp(w.Ctx, p.Guard, "never heard of"), catalog.ErrIntentGone)
}
