package tiering

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/catalog"
	"tidemark/record"
)

func planRow(name string, base, next record.Offset) catalog.Segment {
	generation := strings.Count(name, "'")
	return catalog.Segment{Attempt: name, Base: base, Next: next, Generation: int32(generation)}
}

func planLost(name string, base, next, relies record.Offset, replaced ...string) catalog.Publication {
	return catalog.Publication{Segment: planRow(name, base, next), Relies: relies, Replaced: replaced}
}

// TestH3_PlanOfLostSwaps: which of the swaps that a catalog has lost come back, and over which rows. A row's generation is
// the number of its primes.
func TestH3_PlanOfLostSwaps(t *testing.T) {
	a, b, c := planRow("a", 0, 10), planRow("b", 10, 20), planRow("c", 20, 30)
	live := []catalog.Segment{a, b, c}
	type lost = []catalog.Publication
	for _, x := range []struct {
		name  string
		live  []catalog.Segment
		lost  lost
		gone  string // objects that are not there
		comes string
		left  string
	}{
		{name: "one", lost: lost{planLost("a'", 0, 10, 30, "a")}, comes: "a' over a by 30"},
		{name: "a merge", lost: lost{planLost("m'", 0, 20, 0, "a", "b")}, comes: "m' over a b by 0"},
		{
			name: "lowest first", lost: lost{planLost("c'", 20, 30, 30, "c"), planLost("a'", 0, 10, 30, "a")},
			comes: "a' over a by 30, c' over c by 30",
		},
		{
			name: "a chain is followed to its end", lost: lost{planLost("a'", 0, 10, 30, "a"), planLost("m''", 0, 20, 0, "a'", "b"), planLost("m'''", 0, 20, 20, "m''")},
			comes: "m''' over a b by 30",
		},
		{
			name: "though what is between is gone", lost: lost{planLost("a'", 0, 10, 30, "a"), planLost("a''", 0, 10, 0, "a'")}, gone: "a a'",
			comes: "a'' over a by 30",
		},
		{
			name: "the end of the chain is gone", lost: lost{planLost("a'", 0, 10, 30, "a"), planLost("a''", 0, 10, 40, "a'")}, gone: "a''",
			comes: "a' over a by 30",
		},
		{
			name: "of two of the same rows the one that is there", lost: lost{planLost("f'", 0, 10, 30, "a"), planLost("g'", 0, 10, 30, "a")}, gone: "f'",
			comes: "g' over a by 30",
		},
		{
			name: "of two branches the one that went on", lost: lost{planLost("f'", 0, 10, 0, "a"), planLost("g'", 0, 10, 0, "a"), planLost("g''", 0, 10, 0, "g'")},
			comes: "g'' over a by 0",
		},
		{name: "its rows are others", lost: lost{planLost("x'", 0, 10, 30, "x")}, left: "x'"},
		{name: "its rows reach farther", lost: lost{planLost("x'", 0, 15, 0, "a", "b")}, left: "x'"},
		{name: "it reaches farther", lost: lost{planLost("x'", 0, 25, 0, "a", "b")}, left: "x'"},
		{name: "there is a hole in its rows", lost: lost{planLost("x'", 0, 30, 0, "a", "c")}, left: "x'"},
		{name: "a link is missing", lost: lost{planLost("x''", 0, 10, 0, "y'")}, left: "x''"},
		{name: "nobody knows of what it was made", lost: lost{planLost("x'", 0, 10, 0)}, left: "x'"},
		{name: "its object is gone", lost: lost{planLost("x'", 0, 10, 0, "a")}, gone: "x'", left: "x'"},
		{
			name: "what is there was rewritten meanwhile", live: []catalog.Segment{planRow("n'", 0, 10), b, c},
			lost: lost{planLost("a'", 0, 10, 30, "a")},
		},
		{name: "what is live is not lost", live: []catalog.Segment{planRow("a'", 0, 10), b, c}, lost: lost{planLost("a'", 0, 10, 30, "a")}},
		{
			name: "over uploads that are lost as well", lost: lost{planLost("m'", 20, 50, 0, "c", "d", "e"), planLost("d", 30, 40, 0), planLost("e", 40, 50, 0)},
			comes: "m' over c by 0",
		},
		{
			name: "not over a gap in them", lost: lost{planLost("m'", 20, 50, 0, "c", "e"), planLost("e", 40, 50, 0)}, left: "m'",
		},
		{name: "not with a row between missing", lost: lost{planLost("m'", 10, 40, 0, "b", "d"), planLost("d", 30, 40, 0)}, left: "m'"},
		{name: "an upload is no swap", lost: lost{planLost("d", 30, 40, 0)}},
	} {
		t.Run(x.name, func(t *testing.T) {
			rows := x.live
			if rows == nil {
				rows = live
			}
			all := map[string]catalog.Publication{}
			for _, p := range x.lost {
				all[p.Attempt] = p
			}
			plan, err := planSwaps(rows, all, 30, func(s catalog.Segment) (bool, error) {
				return !slices.Contains(strings.Fields(x.gone), s.Attempt), nil
			})
			require.NoError(t, err)
			var comes, left []string
			for _, s := range plan.in {
				text := s.Attempt + " over"
				for _, o := range s.over {
					text += " " + o.Attempt
				}
				comes = append(comes, fmt.Sprintf("%s by %d", text, s.Relies))
				require.Equal(t, s.Next > 30, s.extends())
			}
			for _, p := range plan.left {
				left = append(left, p.Attempt)
			}
			require.Equal(t, x.comes, strings.Join(comes, ", "))
			require.Equal(t, x.left, strings.Join(left, ", "))
		})
	}
}
