package tiering

import (
	"cmp"
	"slices"

	"tidemark/catalog"
	"tidemark/record"
)

// swapIn is a lost row that may come back in the place of live ones.
type swapIn struct {
	catalog.Publication // Relies is the farthest of all swaps that led to it
	over                []catalog.Segment
}

// extends says whether the row reaches beyond the live ones, over uploads that are lost as well.
func (s swapIn) extends() bool { return s.Next > s.over[len(s.over)-1].Next }

// swapPlan is what can become of lost swaps.
type swapPlan struct {
	in []swapIn // by offset, without overlap
	// left are those that do not come from rows that are there, and that are newer than what is.
	left []catalog.Publication
}

// planSwaps decides which lost swaps come back: of several of one place the one that was rewritten most often, over the
// rows that it was made of, though there may have been others between them whose objects are gone by now. live are the
// rows in offset order that lie below the swaps, lost all lost rows by attempt. usable asks whether an object is there.
func planSwaps(live []catalog.Segment, lost map[string]catalog.Publication, tiered record.Offset, usable func(catalog.Segment) (bool, error)) (swapPlan, error) {
	var plan swapPlan
	var swaps []catalog.Publication
	r := resolver{live: make(map[string]catalog.Segment, len(live)), lost: lost, tiered: tiered}
	for _, s := range live {
		r.live[s.Attempt] = s
	}
	for _, p := range lost {
		if _, there := r.live[p.Attempt]; !there && p.Generation > 0 {
			swaps = append(swaps, p)
		}
	}
	slices.SortFunc(swaps, func(a, b catalog.Publication) int {
		return cmp.Or(cmp.Compare(b.Generation, a.Generation), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Attempt, b.Attempt))
	})
	var rest []catalog.Publication
	for _, p := range swaps {
		if slices.ContainsFunc(plan.in, func(s swapIn) bool { return overlap(s.Segment, p.Segment) }) {
			continue // a later one has its records
		}
		s, ok := r.resolve(p)
		if ok {
			var err error
			if ok, err = usable(p.Segment); err != nil {
				return plan, err
			}
		}
		if ok {
			plan.in = append(plan.in, s)
		} else {
			rest = append(rest, p)
		}
	}
	slices.SortFunc(plan.in, func(a, b swapIn) int { return cmp.Compare(a.Base, b.Base) })
	for _, p := range rest {
		if !slices.ContainsFunc(plan.in, func(s swapIn) bool { return overlap(s.Segment, p.Segment) }) && !outdated(live, p.Segment) {
			plan.left = append(plan.left, p)
		}
	}
	return plan, nil
}

func overlap(a, b catalog.Segment) bool { return a.Base < b.Next && b.Base < a.Next }

// outdated says whether a live row of the same place has been rewritten as often.
func outdated(live []catalog.Segment, s catalog.Segment) bool {
	return slices.ContainsFunc(live, func(l catalog.Segment) bool { return overlap(l, s) && l.Generation >= s.Generation })
}

// resolver finds the live rows that a lost row was made of.
type resolver struct {
	live   map[string]catalog.Segment
	lost   map[string]catalog.Publication
	tiered record.Offset
}

// resolve returns the row over exactly the live rows that it was made of, directly or by way of other lost swaps. Where
// they end at tiered, uploads that followed and are lost may be among its inputs.
func (r *resolver) resolve(p catalog.Publication) (swapIn, bool) {
	var inputs []catalog.Segment
	seen := map[string]bool{}
	for todo := []catalog.Publication{p}; len(todo) > 0; {
		from := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p.Relies = max(p.Relies, from.Relies)
		for _, attempt := range from.Replaced {
			if seen[attempt] {
				return swapIn{}, false
			}
			seen[attempt] = true
			s, live := r.live[attempt]
			l, lost := r.lost[attempt]
			switch {
			case live:
				inputs = append(inputs, s)
			case lost && len(l.Replaced) > 0 && l.Generation < from.Generation:
				todo = append(todo, l)
			case lost && l.Generation == 0 && l.Base >= r.tiered:
				inputs = append(inputs, l.Segment)
			default:
				return swapIn{}, false
			}
		}
	}
	slices.SortFunc(inputs, func(a, b catalog.Segment) int { return cmp.Compare(a.Base, b.Base) })
	at := p.Base
	for _, s := range inputs {
		if s.Base != at || s.Generation >= p.Generation {
			return swapIn{}, false
		}
		at = s.Next
	}
	n := slices.IndexFunc(inputs, func(s catalog.Segment) bool { return s.Base >= r.tiered })
	if n < 0 {
		n = len(inputs)
	}
	if n == 0 || at != p.Next || n < len(inputs) && inputs[n].Base != r.tiered {
		return swapIn{}, false
	}
	return swapIn{Publication: p, over: inputs[:n]}, true
}
