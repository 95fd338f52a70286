package rebuild

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/checkpoint"
)

// entry is a record of the model: a key with a value, or its tombstone.
type entry struct {
	key  int
	gone bool
}

// thing is an object of the model.
type thing struct {
	node
	holds   []record.Offset // of the records that are in it
	put     int64           // seconds
	clean   int64           // second since which its row is clean; 0: it is not
	poison  bool            // what it holds was lost with its leader
	removed int64           // when its garbage row was written
}

// life is one partition of a compacted topic, its catalog, bucket and checkpoints, on one clock.
type life struct {
	t       *rapid.T
	now     int64
	epoch   record.Epoch
	log     []entry
	live    []*thing
	bucket  map[string]*thing
	garbage []*thing // in the order of their rows
	objects int

	saved    *checkpoint.Checkpoint
	savedRow catalog.Partition
	rows     []catalog.Segment

	grace, deletes int64 // TIDEMARK_GC_GRACE and delete.retention.ms, in seconds
	checks         int
}

var modelID = catalog.PartitionID{Topic: catalog.TopicID{1}}

func (l *life) end() record.Offset {
	if len(l.live) == 0 {
		return 0
	}
	return l.live[len(l.live)-1].next
}

func (l *life) put(n node, holds []record.Offset) *thing {
	l.objects++
	n.attempt = fmt.Sprintf("%08x", uint32(l.objects)*2654435761) // their order says nothing
	o := &thing{node: n, holds: holds, put: l.now}
	l.bucket[n.attempt] = o
	return o
}

func (l *life) waste(o *thing) {
	o.removed = l.now
	l.garbage = append(l.garbage, o)
}

func (l *life) upload() {
	base := record.Offset(len(l.log))
	if base != l.end() {
		l.t.Fatalf("the model's log ends at %d, its tier at %d", base, l.end())
	}
	n := record.Offset(rapid.IntRange(1, 3).Draw(l.t, "records"))
	if rapid.IntRange(0, 5).Draw(l.t, "zombie") == 0 { // a leader that is fenced before it publishes, with a log that was lost
		z := l.put(node{base: base, next: base + record.Offset(rapid.IntRange(1, 4).Draw(l.t, "zombie's records")), epoch: l.epoch}, nil)
		z.poison = true
		l.waste(z)
		l.epoch++
	}
	var holds []record.Offset
	for o := base; o < base+n; o++ {
		l.log = append(l.log, entry{rapid.IntRange(0, 3).Draw(l.t, "key"), rapid.IntRange(0, 2).Draw(l.t, "tombstone") == 0})
		holds = append(holds, o)
	}
	o := l.put(node{base: base, next: base + n, epoch: l.epoch}, holds)
	l.check("an upload that is not published")
	l.live = append(l.live, o)
}

// pass compacts (R15): swaps from the lowest rows on; it may die at any object.
func (l *life) pass() {
	end, begun := l.end(), l.now
	last := map[int]record.Offset{} // of each key, of all committed rows
	for _, o := range l.live {
		for _, at := range o.holds {
			last[l.log[at].key] = at
		}
	}
	for at := 0; at < len(l.live); at++ {
		to := min(at+rapid.IntRange(1, 3).Draw(l.t, "joined"), len(l.live))
		if to == at+1 && rapid.Bool().Draw(l.t, "kept as it is") {
			continue
		}
		in := l.live[at:to]
		n := node{base: in[0].base, next: in[len(in)-1].next, epoch: in[len(in)-1].epoch}
		var holds []record.Offset
		clean := begun
		for _, o := range in {
			n.generation = max(n.generation, o.generation+1)
			clean = min(clean, o.clean)
			for _, at := range o.holds {
				e := l.log[at]
				due := o.clean > 0 && o.clean+l.deletes <= begun
				if last[e.key] != at || e.gone && due && !l.older(e.key, at) {
					continue
				}
				holds = append(holds, at)
			}
		}
		out := l.put(n, holds)
		l.check("a pass before its swap")
		if rapid.IntRange(0, 7).Draw(l.t, "it dies") == 0 {
			l.waste(out)
			return
		}
		for _, o := range rapid.Permutation(slices.Clone(in)).Draw(l.t, "garbage") {
			l.waste(o)
		}
		out.clean = clean
		l.live = append(append(l.live[:at:at], out), l.live[to:]...)
		l.check("a pass after a swap")
		l.now += int64(rapid.IntRange(0, 5).Draw(l.t, "seconds of the pass"))
	}
	for _, o := range l.live {
		if o.clean == 0 && o.next <= end {
			o.clean = l.now + 1
		}
	}
}

// older says whether a committed row holds an older record of a key.
func (l *life) older(key int, than record.Offset) bool {
	for _, o := range l.live {
		for _, at := range o.holds {
			if at < than && l.log[at].key == key {
				return true
			}
		}
	}
	return false
}

// collect deletes what is due, in the order of the garbage rows.
func (l *life) collect() {
	for n := rapid.IntRange(1, 6).Draw(l.t, "deletes"); n > 0 && len(l.garbage) > 0 && l.garbage[0].removed+l.grace <= l.now; n-- {
		delete(l.bucket, l.garbage[0].attempt)
		l.garbage = l.garbage[1:]
		l.check("removal")
	}
}

func (l *life) checkpoint() {
	l.saved = &checkpoint.Checkpoint{At: time.Unix(l.now, 0)}
	l.savedRow = catalog.Partition{ID: modelID, LeaderEpoch: l.epoch, Bounds: catalog.Bounds{Tiered: l.end()}}
	l.rows = nil
	for _, o := range l.live {
		l.rows = append(l.rows, catalog.Segment{Partition: modelID, Base: o.base, Next: o.next, LeaderEpoch: o.epoch,
			Generation: o.generation, Attempt: o.attempt, Key: o.attempt, Bytes: 1})
	}
}

// check loses the catalog: what is rebuilt reaches as far as the tier did, and who replays it has the table that the whole
// log gives: of each key the latest record, and none of a deleted key.
func (l *life) check(when string) {
	if l.saved == nil {
		return
	}
	l.checks++
	r := &rebuilding{saved: l.saved, rows: map[catalog.PartitionID][]catalog.Segment{modelID: l.rows},
		bucket: inventory{parts: map[catalog.PartitionID][]found{}}}
	for _, key := range slices.Sorted(maps.Keys(l.bucket)) {
		o := l.bucket[key]
		r.bucket.parts[modelID] = append(r.bucket.parts[modelID], found{key: key, size: 1, base: o.base, modified: time.Unix(o.put, 0)})
	}
	at := r.listed(l.savedRow)
	var cs []candidate
	for _, f := range r.unlisted(modelID, at) {
		cs = append(cs, candidate{node: l.bucket[f.key].node, modified: f.modified})
	}
	cs = r.beside("model", l.savedRow, at, cs)
	nodes := make([]node, len(cs))
	for i, c := range cs {
		nodes[i] = c.node
	}
	way := routeFrom(nodes, 0, at.age)
	end, table := record.Offset(0), map[int]record.Offset{}
	for _, i := range way {
		o := l.bucket[nodes[i].attempt]
		switch {
		case o == nil:
			l.fail(when, nodes, way, "a lost object")
		case o.base != end:
			l.fail(when, nodes, way, "a hole")
		case o.poison:
			l.fail(when, nodes, way, "an object of a lost log")
		}
		end = o.next
		l.replay(table, o.holds)
	}
	if end < l.end() {
		l.fail(when, nodes, way, fmt.Sprintf("it ends at %d, the tier reached to %d", end, l.end()))
	}
	want, all := map[int]record.Offset{}, make([]record.Offset, end)
	for o := range all {
		all[o] = record.Offset(o)
	}
	if l.replay(want, all); !maps.Equal(want, table) {
		l.fail(when, nodes, way, fmt.Sprintf("latest records by key are %v, were %v", table, want))
	}
}

func (l *life) replay(table map[int]record.Offset, offsets []record.Offset) {
	for _, o := range offsets {
		if e := l.log[o]; e.gone {
			delete(table, e.key)
		} else {
			table[e.key] = o
		}
	}
}

func (l *life) fail(when string, nodes []node, way []int, what string) {
	var all, live []string
	for _, n := range nodes {
		text := show([]node{n}, []int{0})
		if n.listed {
			text += "!"
		}
		if n.lost {
			text += "?"
		}
		if n.doubt {
			text += "~"
		}
		all = append(all, text)
	}
	for _, o := range l.live {
		live = append(live, show([]node{o.node}, []int{0}))
	}
	l.t.Fatalf("%s: %s\nlive:   %s\nbucket: %s\nway:    %s", when, what, strings.Join(live, " "), strings.Join(all, " "), show(nodes, way))
}

// Whenever the catalog of a compacted topic is lost, however old the checkpoint is by then: between any two steps of uploads,
// elections, passes that die, and removal.
func TestH21_ARebuiltCompactedTopicGivesTheSameTable(t *testing.T) {
	checks := 0
	rapid.Check(t, func(t *rapid.T) {
		l := &life{t: t, now: 1000, epoch: 1, bucket: map[string]*thing{},
			grace: rapid.SampledFrom([]int64{5, 30, 200}).Draw(t, "grace"), deletes: rapid.SampledFrom([]int64{0, 10, 100}).Draw(t, "delete.retention")}
		l.checkpoint()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2:
				l.upload()
			case 3, 4:
				l.pass()
			case 5, 6:
				l.collect()
			case 7:
				l.now += int64(rapid.IntRange(1, 120).Draw(t, "seconds"))
			case 8:
				l.epoch++
			case 9:
				l.checkpoint()
			}
			l.check("between two steps")
		}
		checks += l.checks
	})
	t.Logf("%d losses of the catalog", checks)
}
