package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Found notes a value that the reader at the end found.
func (h *History) Found(p Partition, offset int64, v Value) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.placeLocked(p, offset, v, "there at the end").atRest = true
}

// Judge says what was wrong. groups are the consumers that were to get everything, each by itself or, if several names
// stand together, between them; all of them have come to the end.
func (h *History) Judge(groups ...[]string) Verdict {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := map[Value]string{}
	for _, p := range slices.SortedFunc(maps.Keys(h.slots), byName) {
		h.judgeLogLocked(p, at)
		for _, g := range groups {
			h.judgeSeenLocked(p, g)
		}
	}
	for _, g := range h.gaps {
		for o := g.from; o < g.to; o++ {
			if h.slots[g.p][o].known {
				h.addLocked("skipped poll", "%s went past %s@%d, which holds %s", g.who, g.p, o, h.slots[g.p][o].value)
			}
		}
	}
	h.gaps = nil
	return Verdict{Anomalies: slices.Clone(h.first), Counts: maps.Clone(h.kinds)}
}

// judgeLogLocked looks at the values of one partition in order. at is where each value was met.
func (h *History) judgeLogLocked(p Partition, at map[Value]string) {
	last := map[int32]int64{}
	for o, s := range h.slots[p] {
		if s.acked && !s.atRest {
			h.addLocked("lost write", "%s@%d: %s was acknowledged and is not there", p, o, s.value)
		}
		if !s.known || !s.atRest {
			continue
		}
		here := fmt.Sprintf("%s@%d", p, o)
		if there, again := at[s.value]; again {
			h.addLocked("duplicate", "%s stands at %s and at %s", s.value, there, here)
		}
		at[s.value] = here
		if before, any := last[s.value.Producer]; any && s.value.Seq < before {
			h.addLocked("disorder", "%s: %s comes after seq %d", here, s.value, before)
		}
		last[s.value.Producer] = s.value.Seq
	}
}

// judgeSeenLocked checks that the consumers got every acknowledged value of a partition.
func (h *History) judgeSeenLocked(p Partition, group []string) {
	for o, s := range h.slots[p] {
		if !s.acked || slices.ContainsFunc(group, func(name string) bool {
			seen := h.cursorLocked(name, p).seen
			return o < len(seen) && seen[o]
		}) {
			continue
		}
		h.addLocked("unseen", "%s@%d: %s was not seen by %s", p, o, s.value, strings.Join(group, ", "))
	}
}

func byName(a, b Partition) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// Verdict is what Judge found.
type Verdict struct {
	Anomalies []Anomaly      // the first of each kind
	Counts    map[string]int // by kind
}

// String tells it in lines.
func (v Verdict) String() string {
	if len(v.Counts) == 0 {
		return "no anomalies"
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(v.Counts)) {
		fmt.Fprintf(&b, "%s: %d\n", kind, v.Counts[kind])
		for _, a := range v.Anomalies {
			if a.Kind == kind {
				fmt.Fprintf(&b, "  %s\n", a.What)
			}
		}
	}
	return b.String()
}
