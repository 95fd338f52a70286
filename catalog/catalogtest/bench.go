package catalogtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

// Bench measures the calls that brokers make all the time.
func Bench(b *testing.B, open func(b *testing.B) catalog.Store) {
	w := NewWorld(b, open(b))
	p := w.OnePartition()
	slots := w.GiveSlots(1, 0)
	at := w.Position()
	b.Run("upload", func(b *testing.B) {
		for b.Loop() {
			o := p.Row().Tiered
			s := p.Announce(p.Segment(o, o+10))
			_, err := w.S.Publish(w.Ctx, p.Guard, s)
			require.NoError(b, err)
		}
	})
	b.Run("renew", func(b *testing.B) {
		for b.Loop() {
			_, err := w.S.Renew(w.Ctx, 1, w.Inc[1])
			require.NoError(b, err)
		}
	})
	b.Run("pull of nothing new", func(b *testing.B) {
		for b.Loop() {
			_, err := w.S.Pull(w.Ctx, at)
			require.NoError(b, err)
		}
	})
	b.Run("commit of 100 offsets", func(b *testing.B) {
		n := record.Offset(0)
		for b.Loop() {
			n++
			ws := make([]catalog.OffsetWrite, 100)
			for i := range ws {
				ws[i] = p.commit(slots[0], fmt.Sprintf("group-%d", i), n)
			}
			_, err := w.S.CommitOffsets(w.Ctx, ws)
			require.NoError(b, err)
		}
	})
}
