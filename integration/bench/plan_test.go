package main

import (
	"slices"
	"testing"
)

// Every row has a name of its own, a row at a share comes after the one that gives its peak, and what is run in every round
// comes before what is not.
func TestSelectionIsInOrder(t *testing.T) {
	for name, rows := range map[string][]row{"selection": selection(), "matrix": matrix()} {
		var seen []string
		sides := false
		for _, r := range rows {
			if slices.Contains(seen, r.Name) {
				t.Errorf("%s: two rows are called %q", name, r.Name)
			}
			if r.Share > 0 && !slices.Contains(seen, r.Of) {
				t.Errorf("%s: %q comes before %q", name, r.Name, r.Of)
			}
			if sides && !r.Side {
				t.Errorf("%s: %q comes after rows with fewer runs", name, r.Name)
			}
			sides = sides || r.Side
			seen = append(seen, r.Name)
		}
	}
}
