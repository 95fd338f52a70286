package rebuild

import (
	"cmp"
	"slices"

	"tidemark/record"
)

// node is an object that may become a row: of a checkpoint, or found in the bucket.
type node struct {
	base, next record.Offset
	epoch      record.Epoch
	generation int32
	attempt    string
	// listed: the checkpoint has its row. lost: its object is not in the bucket. doubt: it was not live when the
	// checkpoint was written, or a later leader's upload shows that it was never published.
	listed, lost, doubt bool
}

// age is which of several states of the same range is taken.
type age int

const (
	// oldest: what a checkpoint knows is gone on from. Objects are deleted in the order in which they were replaced, so
	// of the states since the checkpoint the oldest that is there whole is one that was live (ADR 0012).
	oldest age = -1
	// newest: nothing tells how long an object that was replaced has been lying there.
	newest age = 1
)

// worth says how good the best way on from a node is.
type worth struct {
	epoch  record.Epoch  // of its last object: a later leader's history holds
	reach  record.Offset // where it ends
	lost   int64         // offsets in lost objects, better few
	doubt  int64         // offsets in doubtful objects, better few
	listed int64         // offsets in rows of the checkpoint, better many
	passes int64         // sum of the generations of all offsets, few if the oldest state is looked for
}

func (a worth) compare(b worth, by age) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.reach, b.reach), -cmp.Compare(a.lost, b.lost), -cmp.Compare(a.doubt, b.doubt),
		cmp.Compare(a.listed, b.listed), int(by)*cmp.Compare(a.passes, b.passes))
}

// compare orders candidates for the same offset, the better one higher: by what follows, then by leader epoch and
// length; the attempt makes the answer the same each time.
func (g *graph) compare(i, j int) int {
	a, b := &g.nodes[i], &g.nodes[j]
	return cmp.Or(g.best[i].compare(g.best[j], g.age), cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.next, b.next), cmp.Compare(a.attempt, b.attempt))
}

// graph is the nodes of one partition with the best way on from each.
type graph struct {
	nodes []node
	age   age
	best  []worth
	on    []int                   // the node that follows, -1: none
	at    map[record.Offset][]int // nodes by base
}

// newGraph finds the best way on from each node. A node continues another that ends where it begins, if
// its leader epoch is not lower.
func newGraph(nodes []node, by age) *graph {
	g := &graph{nodes: nodes, age: by, best: make([]worth, len(nodes)), on: make([]int, len(nodes)), at: map[record.Offset][]int{}}
	order := make([]int, len(nodes))
	for i := range nodes {
		order[i] = i
		g.at[nodes[i].base] = append(g.at[nodes[i].base], i)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(nodes[a].base, nodes[b].base), cmp.Compare(nodes[a].attempt, nodes[b].attempt))
	})
	doubt := supplanted(nodes, order)
	for _, i := range slices.Backward(order) { // whoever follows a node begins above it
		n := &nodes[i]
		g.on[i] = -1
		g.best[i] = worth{epoch: n.epoch, reach: n.next}
		if next := g.pick(g.at[n.next], n.epoch); next >= 0 {
			g.on[i], g.best[i] = next, g.best[next]
		}
		span := int64(n.next - n.base)
		g.best[i].passes += span * int64(n.generation)
		if n.lost {
			g.best[i].lost += span
		}
		if n.doubt || doubt[i] {
			g.best[i].doubt += span
		}
		if n.listed {
			g.best[i].listed += span
		}
	}
	return g
}

// supplanted finds uploads that were never published: leaders upload in the order of offsets, so a later one began at or
// below them, or what covers just their range is a later one's. order is the nodes by base.
func supplanted(nodes []node, order []int) []bool {
	type span struct{ base, next record.Offset }
	covers := map[span]record.Epoch{}
	for i := range nodes {
		at := span{nodes[i].base, nodes[i].next}
		covers[at] = max(covers[at], nodes[i].epoch)
	}
	out := make([]bool, len(nodes))
	var latest record.Epoch
	for from := 0; from < len(order); {
		to := from
		for ; to < len(order) && nodes[order[to]].base == nodes[order[from]].base; to++ {
			if n := &nodes[order[to]]; n.generation == 0 {
				latest = max(latest, n.epoch)
			}
		}
		for _, i := range order[from:to] {
			n := &nodes[i]
			out[i] = n.generation == 0 && !n.listed && n.epoch < max(latest, covers[span{n.base, n.next}])
		}
		from = to
	}
	return out
}

// pick is the best of some nodes whose epoch is at least the given one, -1 if there is none.
func (g *graph) pick(from []int, epoch record.Epoch) int {
	best := -1
	for _, i := range from {
		if g.nodes[i].epoch >= epoch && (best < 0 || g.compare(i, best) > 0) {
			best = i
		}
	}
	return best
}

// walk lists the best way on from a node, itself first.
func (g *graph) walk(from int) []int {
	var way []int
	for i := from; i >= 0; i = g.on[i] {
		way = append(way, i)
	}
	return way
}

// routeFrom is the best way through the nodes from the one that covers start on; nil if none does.
func routeFrom(nodes []node, start record.Offset, by age) []int {
	g := newGraph(nodes, by)
	var first []int
	for i, n := range nodes {
		if n.base <= start && start < n.next {
			first = append(first, i)
		}
	}
	return g.walk(g.pick(first, -1))
}

// routeOfAll is the way that ends best, from as far below as it can be followed: what a partition without
// checkpoint holds.
func routeOfAll(nodes []node) []int {
	g := newGraph(nodes, newest)
	best := -1
	for i := range nodes {
		if best < 0 {
			best = i
			continue
		}
		a, b := g.best[i], g.best[best]
		if c := cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.reach, b.reach), -cmp.Compare(nodes[i].base, nodes[best].base)); c > 0 ||
			c == 0 && g.compare(i, best) > 0 {
			best = i
		}
	}
	return g.walk(best)
}
