package catalogtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

var commitTime = time.UnixMilli(1_700_000_000_123)

// slot takes a slot for a broker.
func (w *World) slot(b catalog.BrokerID, n int32) catalog.SlotGuard {
	w.T.Helper()
	return w.GiveSlots(b, n)[0]
}

func (p *Partition) commit(g catalog.SlotGuard, group string, o record.Offset) catalog.OffsetWrite {
	return catalog.OffsetWrite{Guard: g, CommittedOffset: catalog.CommittedOffset{
		Group: group, Partition: p.ID, Offset: o, LeaderEpoch: 3, Metadata: "m", CommitTime: commitTime}}
}

// committed is the one offset of a group, -1 if it has none.
func (w *World) committed(group string) record.Offset {
	w.T.Helper()
	rows, err := w.S.GroupOffsets(w.Ctx, group)
	require.NoError(w.T, err)
	if len(rows) == 0 {
		return -1
	}
	require.Len(w.T, rows, 1)
	return rows[0].Offset
}

var offsetStories = []story{
	{"a commit is read back, without moving the counter (H13)", func(w *World) {
		p := w.OnePartition()
		g := w.slot(1, 7)
		w.WithoutCounter(func() {
			errs, err := w.S.CommitOffsets(w.Ctx, []catalog.OffsetWrite{p.commit(g, "g", 10)})
			require.NoError(w.T, err)
			require.Equal(w.T, []error{nil}, errs)
		})
		rows, err := w.S.GroupOffsets(w.Ctx, "g")
		require.NoError(w.T, err)
		require.Equal(w.T, []catalog.CommittedOffset{p.commit(g, "g", 10).CommittedOffset}, rows)
		groups, err := w.S.OffsetGroups(w.Ctx)
		require.NoError(w.T, err)
		require.Equal(w.T, map[string]time.Time{"g": commitTime}, groups)
	}},
	{"H20 a batch is answered entry by entry, the last value per key wins", func(w *World) {
		p := w.OnePartition()
		g := w.slot(1, 7)
		fenced := g
		fenced.Epoch--
		unknown := p.commit(g, "g", 30)
		unknown.Partition.Topic = catalog.NewUUID()
		beyond := p.commit(g, "g", 30)
		beyond.Partition.Partition = 1
		errs, err := w.S.CommitOffsets(w.Ctx, []catalog.OffsetWrite{
			p.commit(g, "g", 10), unknown, p.commit(fenced, "g", 99), beyond, p.commit(g, "h", 5), p.commit(g, "g", 20)})
		require.NoError(w.T, err)
		require.NoError(w.T, errs[0])
		require.ErrorIs(w.T, errs[1], catalog.ErrUnknownTopic)
		require.ErrorIs(w.T, errs[2], catalog.ErrFenced)
		require.ErrorIs(w.T, errs[3], catalog.ErrUnknownTopic)
		require.NoError(w.T, errs[4])
		require.NoError(w.T, errs[5])
		require.EqualValues(w.T, 20, w.committed("g"))
		require.EqualValues(w.T, 5, w.committed("h"))
		errs, err = w.S.CommitOffsets(w.Ctx, nil)
		require.NoError(w.T, err)
		require.Empty(w.T, errs)
	}},
	{"G2 a coordinator that lost its slot commits nothing", func(w *World) {
		p := w.OnePartition()
		w.Register(2)
		old := w.slot(1, 7)
		now := w.slot(2, 7)
		require.Equal(w.T, old.Epoch+1, now.Epoch)
		errs, err := w.S.CommitOffsets(w.Ctx, []catalog.OffsetWrite{p.commit(now, "g", 20), p.commit(old, "g", 10)})
		require.NoError(w.T, err)
		require.NoError(w.T, errs[0])
		require.ErrorIs(w.T, errs[1], catalog.ErrFenced)
		require.EqualValues(w.T, 20, w.committed("g"))
		require.ErrorIs(w.T, w.S.DeleteOffsets(w.Ctx, old, "g", nil), catalog.ErrFenced)
		holders, err := w.S.SlotHolders(w.Ctx)
		require.NoError(w.T, err)
		require.Equal(w.T, []catalog.SlotGuard{now}, holders)
	}},
	{"K5 the same commit again changes nothing", func(w *World) {
		p := w.OnePartition()
		g := w.slot(1, 0)
		for range 2 {
			errs, err := w.S.CommitOffsets(w.Ctx, []catalog.OffsetWrite{p.commit(g, "g", 10)})
			require.NoError(w.T, err)
			require.NoError(w.T, errs[0])
		}
		require.EqualValues(w.T, 10, w.committed("g"))
	}},
	{"G9 offsets go with their topic", func(w *World) {
		p := w.OnePartition()
		g := w.slot(1, 0)
		_, err := w.S.CommitOffsets(w.Ctx, []catalog.OffsetWrite{p.commit(g, "g", 99)})
		require.NoError(w.T, err)
		require.NoError(w.T, w.S.DeleteTopic(w.Ctx, p.ID.Topic))
		require.EqualValues(w.T, -1, w.committed("g"))
		errs, err := w.S.CommitOffsets(w.Ctx, []catalog.OffsetWrite{p.commit(g, "g", 99)})
		require.NoError(w.T, err)
		require.ErrorIs(w.T, errs[0], catalog.ErrUnknownTopic)
		require.EqualValues(w.T, -1, w.committed("g"))
	}},
	{"offsets are deleted by name or all at once", func(w *World) {
		w.Register(1)
		t := w.Topic(3, 1)
		g := w.slot(1, 0)
		var ws []catalog.OffsetWrite
		for i := range int32(3) {
			ws = append(ws, w.Led(t, i).commit(g, "g", 5))
		}
		_, err := w.S.CommitOffsets(w.Ctx, ws)
		require.NoError(w.T, err)
		require.NoError(w.T, w.S.DeleteOffsets(w.Ctx, g, "g", []catalog.PartitionID{ws[0].Partition, {Topic: t.ID, Partition: 9}}))
		rows, err := w.S.GroupOffsets(w.Ctx, "g")
		require.NoError(w.T, err)
		require.Len(w.T, rows, 2)
		require.NoError(w.T, w.S.DeleteOffsets(w.Ctx, g, "g", nil))
		require.EqualValues(w.T, -1, w.committed("g"))
		groups, err := w.S.OffsetGroups(w.Ctx)
		require.NoError(w.T, err)
		require.Empty(w.T, groups)
	}},
	{"all slots are taken at once", func(w *World) {
		w.Register(1)
		var all []int32
		for i := range int32(catalog.Slots) {
			all = append(all, i)
		}
		gs := w.GiveSlots(1, all...)
		holders, err := w.S.SlotHolders(w.Ctx)
		require.NoError(w.T, err)
		require.Equal(w.T, gs, holders)
	}},
}
