package rebuild

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
)

// parse reads nodes as "0-10" (epoch 1), "0-10@5", "0-10@5g2", with "!" listed, "?" lost and "~" in doubt behind.
func parse(t testing.TB, text string) []node {
	t.Helper()
	var out []node
	for i, w := range strings.Fields(text) {
		n := node{epoch: 1, attempt: fmt.Sprintf("a%02d", i)}
		n.listed, n.lost, n.doubt = strings.Contains(w, "!"), strings.Contains(w, "?"), strings.Contains(w, "~")
		w = strings.TrimRight(w, "!?~")
		w, rest, _ := strings.Cut(w, "@")
		if rest != "" {
			e, g, _ := strings.Cut(rest, "g")
			_, err := fmt.Sscan(e, &n.epoch)
			require.NoError(t, err)
			if g != "" {
				_, err := fmt.Sscan(g, &n.generation)
				require.NoError(t, err)
			}
		}
		_, err := fmt.Sscanf(w, "%d-%d", &n.base, &n.next)
		require.NoError(t, err)
		out = append(out, n)
	}
	return out
}

func show(nodes []node, way []int) string {
	var out []string
	for _, i := range way {
		n := nodes[i]
		s := fmt.Sprintf("%d-%d@%d", n.base, n.next, n.epoch)
		if n.generation > 0 {
			s += fmt.Sprintf("g%d", n.generation)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestH21_WhichObjectsAreLive(t *testing.T) {
	for _, row := range []struct {
		story, nodes string
		start        record.Offset
		want         string
	}{
		{"a plain chain", "0-10 10-20 20-30", 0, "0-10@1 10-20@1 20-30@1"},
		{"start lies inside an object", "0-10 10-20 20-30", 15, "10-20@1 20-30@1"},
		{"an attempt of a lost lineage, longer than the later leader's", "0-100@4 100-200@5 100-150@6", 0, "0-100@4 100-150@6"},
		{"an epoch never falls along the way", "0-100@6 100-200@5", 0, "0-100@6"},
		{"two attempts of one leader: the longer one", "0-10 10-15 10-20", 0, "0-10@1 10-20@1"},
		{"a merge whose inputs wait for their removal", "0-10 10-20 0-20@1g1 20-30", 0, "0-10@1 10-20@1 20-30@1"},
		{"inputs of the checkpoint that are there hold against a pass that was never published", "0-10! 10-20! 0-20@1g1 20-30!", 0, "0-10@1 10-20@1 20-30@1"},
		{"an input is gone: the pass was published", "0-10!? 10-20! 0-20@1g1 20-30!", 0, "0-20@1g1 20-30@1"},
		{"a pass that was never published leads nowhere", "0-20@1g1 0-15@1g1 15-30@1g1 30-40", 0, "0-15@1g1 15-30@1g1 30-40@1"},
		{"a lost object that nothing replaces stays, so that reads of it fail and others do not", "0-10! 10-20!? 20-30!", 0, "0-10@1 10-20@1 20-30@1"},
		{"a hole ends the way", "0-10 20-30", 0, "0-10@1"},
		{"a merge over the checkpoint's end", "80-100!? 80-120@1g1 120-130", 80, "80-120@1g1 120-130@1"},
		{"objects that had been replaced when the checkpoint was written", "0-10~ 10-20~ 0-20@1g1!? 0-20@1g2", 0, "0-20@1g2"},
		{"nothing else is left of a range", "0-10~ 10-20", 0, "0-10@1 10-20@1"},
		{"an attempt of a lost lineage as long as the later leader's, which is compacted", "0-10@4 10-20@4 10-20@5g1 20-30@5", 0, "0-10@4 10-20@5g1 20-30@5"},
		{"one of two passes is on its way out", "0-10 0-10@1g1 10-20@1g1 10-20@1g2", 0, "0-10@1 10-20@1g1"},
		{"nothing covers start", "10-20", 0, ""},
	} {
		t.Run(row.story, func(t *testing.T) {
			nodes := parse(t, row.nodes)
			require.Equal(t, row.want, show(nodes, routeFrom(nodes, row.start, oldest)))
			for range 5 { // the order in which the bucket lists them decides nothing
				rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
				require.Equal(t, row.want, show(nodes, routeFrom(nodes, row.start, oldest)))
			}
		})
	}
}

func TestWithoutACheckpointTheWayThatEndsBestIsTaken(t *testing.T) {
	for _, row := range []struct{ story, nodes, want string }{
		{"a plain chain", "10-20 20-30", "10-20@1 20-30@1"},
		{"an island below", "0-5 10-20 20-30", "10-20@1 20-30@1"},
		{"an island of a later leader", "0-10@3 20-30@4", "20-30@4"},
		{"merged and not", "0-10 10-20 0-20@1g1 20-30", "0-20@1g1 20-30@1"},
		{"nothing", "", ""},
	} {
		t.Run(row.story, func(t *testing.T) {
			nodes := parse(t, row.nodes)
			require.Equal(t, row.want, show(nodes, routeOfAll(nodes)))
		})
	}
}

// Whatever a partition's life was (uploads, swaps, garbage that is or is not removed yet, attempts that
// were never published), the way covers exactly what the tier held.
func TestTheWayCoversWhatTheTierHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live, bucket []node
		id, end := 0, record.Offset(0)
		epoch := record.Epoch(1)
		add := func(base, next record.Offset, gen int32) node {
			id++
			n := node{base: base, next: next, epoch: epoch, generation: gen, attempt: fmt.Sprintf("a%04d", id)}
			bucket = append(bucket, n)
			return n
		}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				if rapid.Bool().Draw(t, "zombie") {
					add(end, end+record.Offset(rapid.IntRange(1, 5).Draw(t, "zombie span")), 0)
					epoch++ // it was given up because another leads
				}
				n := add(end, end+10, 0)
				live, end = append(live, n), end+10
			case 2:
				epoch += record.Epoch(rapid.IntRange(0, 1).Draw(t, "election"))
			case 3:
				if len(live) < 2 {
					continue
				}
				from := rapid.IntRange(0, len(live)-2).Draw(t, "from")
				to := rapid.IntRange(from+1, len(live)).Draw(t, "to")
				was := epoch
				epoch = live[to-1].epoch
				n := add(live[from].base, live[to-1].next, live[from].generation+1)
				epoch = was
				if rapid.Bool().Draw(t, "removed") {
					for _, old := range live[from:to] {
						for i := range bucket {
							if bucket[i].attempt == old.attempt {
								bucket = append(bucket[:i], bucket[i+1:]...)
								break
							}
						}
					}
				}
				live = append(append(append([]node(nil), live[:from]...), n), live[to:]...)
			}
		}
		if len(live) == 0 {
			return
		}
		at := record.Offset(0)
		for _, i := range routeFrom(bucket, 0, oldest) {
			if bucket[i].base != at {
				t.Fatalf("a hole at %d", at)
			}
			at = bucket[i].next
		}
		if at != end {
			t.Fatalf("reached %d of %d: %s", at, end, show(bucket, routeFrom(bucket, 0, oldest)))
		}
	})
}
