package record

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// history is written as epoch, start, epoch, start …
func history(pairs ...int) EpochHistory {
	var e EpochHistory
	for i := 0; i < len(pairs); i += 2 {
		e.Assign(Epoch(pairs[i]), Offset(pairs[i+1]))
	}
	return e
}

func TestEpochAssign(t *testing.T) {
	for _, r := range []struct {
		story  string
		before EpochHistory
		epoch  Epoch
		start  Offset
		after  EpochHistory
	}{
		{"the first", history(), 0, 0, history(0, 0)},
		{"a newer one", history(0, 0), 2, 10, history(0, 0, 2, 10)},
		{"the same again, further on", history(0, 0, 2, 10), 2, 15, history(0, 0, 2, 10)},
		{"an older one", history(0, 0, 2, 10), 1, 20, history(0, 0, 2, 10)},
		{"none", history(0, 0), NoEpoch, 5, history(0, 0)},
		{"after one that wrote nothing", history(0, 0, 2, 10), 3, 10, history(0, 0, 3, 10)},
		{"after some that were cut", history(0, 0, 2, 10, 3, 20), 4, 5, history(0, 0, 4, 5)},
	} {
		got := r.before
		changed := got.Assign(r.epoch, r.start)
		require.Equal(t, r.after.Entries(), got.Entries(), r.story)
		require.NotEqual(t, changed, len(got.entries) == len(r.before.entries) && got.EqualOn(r.before, 0, 1<<40), r.story)
	}
}

func TestEpochHistoryIsAValue(t *testing.T) {
	e := history(0, 0, 1, 10, 2, 20)
	kept := e
	e.TruncateTo(15)
	e.Assign(7, 12)
	e.TrimBelow(5)
	require.Equal(t, history(0, 0, 1, 10, 2, 20).Entries(), kept.Entries())
	require.Equal(t, history(0, 5, 1, 10, 7, 12).Entries(), e.Entries())
}

// TestEpochEndOffset follows KIP-101 and KIP-279: the largest epoch not above the
// asked one, and where it ends.
func TestEpochEndOffset(t *testing.T) {
	e := history(2, 5, 4, 10, 6, 20)
	for _, r := range []struct {
		ask   Epoch
		epoch Epoch
		end   Offset
	}{
		{NoEpoch, NoEpoch, NoOffset},
		{0, 0, 5}, {1, 1, 5},
		{2, 2, 10}, {3, 2, 10}, {4, 4, 20}, {5, 4, 20},
		{6, 6, 33},
		{7, NoEpoch, NoOffset},
	} {
		epoch, end := e.EndOffset(r.ask, 33)
		require.Equal(t, r.epoch, epoch, "asked %d", r.ask)
		require.Equal(t, r.end, end, "asked %d", r.ask)
	}
	epoch, end := EpochHistory{}.EndOffset(0, 10)
	require.Equal(t, NoEpoch, epoch)
	require.Equal(t, NoOffset, end)
}

func TestEpochTrimBelow(t *testing.T) {
	for start, want := range map[Offset]EpochHistory{
		0: history(2, 5, 4, 10), 5: history(2, 5, 4, 10), 7: history(2, 7, 4, 10),
		10: history(4, 10), 50: history(4, 50),
	} {
		e := history(2, 5, 4, 10)
		e.TrimBelow(start)
		require.Equal(t, want.Entries(), e.Entries(), "start %d", start)
	}
}

func TestEpochEqualOn(t *testing.T) {
	a, b := history(0, 0, 1, 10, 2, 20), history(0, 3, 1, 10, 3, 20)
	require.True(t, a.EqualOn(b, 3, 20))
	require.True(t, a.EqualOn(b, 12, 15))
	require.False(t, a.EqualOn(b, 2, 20), "b begins at 3")
	require.False(t, a.EqualOn(b, 3, 21), "20 was written by another")
	require.True(t, a.EqualOn(b, 50, 50), "nothing to differ in")
}

// TestEpochTwin compares with one epoch per offset in a plain slice.
func TestEpochTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e EpochHistory
		var twin []Epoch // by offset, from 0
		start, epoch := 0, Epoch(0)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				epoch += Epoch(rapid.IntRange(1, 3).Draw(t, "newer"))
				e.Assign(epoch, Offset(len(twin)))
				twin = append(twin, epoch)
			case 1:
				if len(twin) > start {
					e.Assign(twin[len(twin)-1], Offset(len(twin)))
					twin = append(twin, twin[len(twin)-1])
				}
			case 2:
				twin = twin[:rapid.IntRange(start, len(twin)).Draw(t, "cut")]
				e.TruncateTo(Offset(len(twin)))
			case 3:
				if len(twin) > start {
					start = rapid.IntRange(start, len(twin)-1).Draw(t, "start")
					e.TrimBelow(Offset(start))
				}
			}
			for o := start; o < len(twin); o++ {
				require.Equal(t, twin[o], e.EpochAt(Offset(o)), "offset %d of %v", o, e)
			}
			decoded, rest, err := DecodeEpochHistory(append(e.AppendTo(nil), 1, 2))
			require.NoError(t, err)
			require.Equal(t, []byte{1, 2}, rest)
			require.Equal(t, e.AppendTo(nil), decoded.AppendTo(nil))
			require.True(t, e.EqualOn(decoded, 0, 1<<40))
		}
	})
}
