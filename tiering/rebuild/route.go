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
	// listed: the checkpoint has its row. lost: its object is not in the bucket.
	listed, lost bool
}

// worth says how good the best way on from a node is.
type worth struct {
	epoch  record.Epoch  // of its last object: a later leader's history holds
	reach  record.Offset // where it ends
	lost   int64         // offsets in lost objects, better few
	listed int64         // offsets in rows of the checkpoint, better many
}

func (a worth) compare(b worth) int {
	return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.reach, b.reach), -cmp.Compare(a.lost, b.lost), cmp.Compare(a.listed, b.listed))
}

// compareNodes orders candidates for the same offset, the better one higher: by what follows, then by
// (leader epoch, generation), then by length; the attempt makes the answer the same each time.
func compareNodes(a, b *node, wa, wb worth) int {
	return cmp.Or(wa.compare(wb), cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.generation, b.generation),
		cmp.Compare(a.next, b.next), cmp.Compare(a.attempt, b.attempt))
}

// graph is the nodes of one partition with the best way on from each.
type graph struct {
	nodes []node
	best  []worth
	on    []int                   // the node that follows, -1: none
	at    map[record.Offset][]int // nodes by base
}

// newGraph finds the best way on from each node. A node continues another that ends where it begins, if
// its leader epoch is not lower.
func newGraph(nodes []node) *graph {
	g := &graph{nodes: nodes, best: make([]worth, len(nodes)), on: make([]int, len(nodes)), at: map[record.Offset][]int{}}
	order := make([]int, len(nodes))
	for i := range nodes {
		order[i] = i
		g.at[nodes[i].base] = append(g.at[nodes[i].base], i)
	}
	// Whoever follows a node begins above it.
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(nodes[a].base, nodes[b].base), cmp.Compare(nodes[a].attempt, nodes[b].attempt))
	})
	for _, i := range order {
		n := &nodes[i]
		g.on[i] = -1
		g.best[i] = worth{epoch: n.epoch, reach: n.next}
		if next := g.pick(g.at[n.next], n.epoch); next >= 0 {
			g.on[i], g.best[i] = next, g.best[next]
		}
		span := int64(n.next - n.base)
		if n.lost {
			g.best[i].lost += span
		}
		if n.listed {
			g.best[i].listed += span
		}
	}
	return g
}

// pick is the best of some nodes whose epoch is at least the given one, -1 if there is none.
func (g *graph) pick(from []int, epoch record.Epoch) int {
	best := -1
	for _, i := range from {
		if g.nodes[i].epoch < epoch {
			continue
		}
		if best < 0 || compareNodes(&g.nodes[i], &g.nodes[best], g.best[i], g.best[best]) > 0 {
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
func routeFrom(nodes []node, start record.Offset) []int {
	g := newGraph(nodes)
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
	g := newGraph(nodes)
	best := -1
	for i := range nodes {
		if best < 0 {
			best = i
			continue
		}
		a, b := g.best[i], g.best[best]
		if c := cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.reach, b.reach), -cmp.Compare(nodes[i].base, nodes[best].base)); c > 0 ||
			c == 0 && compareNodes(&nodes[i], &nodes[best], a, b) > 0 {
			best = i
		}
	}
	return g.walk(best)
}
