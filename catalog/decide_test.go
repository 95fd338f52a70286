package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
)

func TestPublishContinuesTheTier(t *testing.T) {
	rows := []struct {
		story         string
		start, tiered record.Offset
		base, next    record.Offset
		ok            bool
	}{
		{"first segment", 0, 0, 0, 10, true},
		{"the next one", 0, 10, 10, 20, true},
		{"a hole", 0, 10, 11, 20, false},
		{"an overlap", 0, 10, 9, 20, false},
		{"H15 start inside the batch, tier empty", 15, 15, 12, 18, true},
		{"H15 but nothing of it is at or above start", 15, 15, 10, 15, false},
		{"begins below start, but the tier is not empty", 12, 15, 12, 18, false},
		{"empty range", 0, 10, 10, 10, false},
	}
	for _, r := range rows {
		t.Run(r.story, func(t *testing.T) {
			b, err := CheckPublish(Bounds{Start: r.start, Tiered: r.tiered, TierBytes: 7}, Segment{Base: r.base, Next: r.next, Bytes: 3})
			require.Equal(t, r.ok, err == nil, "%v", err)
			if r.ok {
				require.Equal(t, Bounds{Start: r.start, Tiered: r.next, TierBytes: 10}, b)
			}
		})
	}
}

func TestAGuardHoldsOnlyAsAWhole(t *testing.T) {
	g := Guard{Broker: 1, Incarnation: 2, Epoch: 3}
	require.NoError(t, CheckGuard(g, g))
	for _, row := range []Guard{{2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {1, 2, 2}, {NoBroker, 0, 3}} {
		require.ErrorIs(t, CheckGuard(g, row), ErrFenced)
	}
	nobody := Guard{Broker: NoBroker}
	require.ErrorIs(t, CheckGuard(nobody, nobody), ErrFenced, "nobody holds nothing")
}

// Whatever is removed and swapped in whatever steps, the chain ends right, is never too small on the
// way and never falls from row to row (H25).
func TestH25_TheChainIsNeverTooSmallAndEndsRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxes := rapid.SliceOfN(rapid.Int64Range(-1, 20), 1, 30).Draw(t, "timestamps")
		rows := make([]RunningMax, len(maxes))
		upto := record.NoTimestamp
		for i, m := range maxes {
			upto = max(upto, m)
			rows[i] = RunningMax{ID: SegmentID(i), Base: record.Offset(i), Max: m, Upto: upto}
		}
		from, firm := record.Offset(-1), record.Offset(-1)
		change := func(o record.Offset) {
			if from < 0 || o < from {
				from = o
			}
			firm = max(firm, o)
		}
		if gone := rapid.IntRange(0, len(rows)-1).Draw(t, "removed"); gone > 0 {
			rows = rows[gone:]
			change(rows[0].Base)
		}
		for range rapid.IntRange(0, 3).Draw(t, "rewritten") {
			i := rapid.IntRange(0, len(rows)-1).Draw(t, "row")
			rows[i].Max = rapid.Int64Range(-1, rows[i].Max).Draw(t, "fewer records")
			rows[i].Upto = rows[i].Max
			if i > 0 {
				rows[i].Upto = max(rows[i-1].Upto, rows[i].Max)
			}
			change(rows[i].Base)
			if i+1 < len(rows) {
				change(rows[i+1].Base)
			}
		}
		step := rapid.IntRange(1, 4).Draw(t, "step")
		for from >= 0 {
			checkChain(t, rows, false)
			from = chainStep(rows, from, firm, step)
		}
		checkChain(t, rows, true)
	})
}

// chainStep is what a store does with a mark: the new mark, or -1.
func chainStep(rows []RunningMax, from, firm record.Offset, step int) record.Offset {
	before, at := record.NoTimestamp, 0
	for at < len(rows) && rows[at].Base < from {
		before = rows[at].Upto
		at++
	}
	window := rows[at:min(at+step, len(rows))]
	changed, settled := ChainMax(before, window, firm)
	for _, c := range changed {
		for i := range rows {
			if rows[i].ID == c.ID {
				rows[i].Upto = c.Upto
			}
		}
	}
	if settled || len(window) < step {
		return -1
	}
	return window[len(window)-1].Base + 1
}

func checkChain(t *rapid.T, rows []RunningMax, exact bool) {
	upto := record.NoTimestamp
	for i, r := range rows {
		upto = max(upto, r.Max)
		if r.Upto < upto || (exact && r.Upto != upto) || (i > 0 && r.Upto < rows[i-1].Upto) {
			t.Fatalf("row %d: stored %d, right is %d, exact %v: %+v", i, r.Upto, upto, exact, rows)
		}
	}
}

func TestUUIDsReadBackInBothForms(t *testing.T) {
	for range 100 {
		id := NewUUID()
		require.NotEqual(t, byte('-'), id.String()[0])
		for _, text := range []string{id.String(), id.Hex()} {
			back, err := ParseUUID(text)
			require.NoError(t, err)
			require.Equal(t, id, back)
		}
	}
	for _, bad := range []string{"", "abc", "zz", "0123456789abcdef0123456789abcdeg"} {
		_, err := ParseUUID(bad)
		require.Error(t, err)
	}
}

func TestUnavailableIsSeenThroughWrapping(t *testing.T) {
	require.NoError(t, MarkUnavailable(nil))
	err := MarkUnavailable(ErrGarbage)
	require.True(t, Unavailable(err))
	require.ErrorIs(t, err, ErrGarbage)
	require.False(t, Unavailable(ErrFenced))
}
