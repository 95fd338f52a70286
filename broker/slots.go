package broker

import (
	"sync/atomic"

	"tidemark/broker/group"
	"tidemark/broker/metadata"
	"tidemark/catalog"
)

// slotTable is the coordinator slots that this broker holds, as the newest image says. Reading takes no
// lock; one writer at a time.
type slotTable struct {
	held [catalog.Slots]atomic.Pointer[catalog.SlotGuard]
}

// guard is group.Options.Guard.
func (t *slotTable) guard(name string) (catalog.SlotGuard, bool) {
	g := t.held[group.SlotOf(name)].Load()
	if g == nil {
		return catalog.SlotGuard{}, false
	}
	return *g, true
}

// follow takes over an image. A slot that came, went or was taken anew is nobody's while drop forgets its
// groups, so that nothing that was loaded under another epoch outlives it; a load under the new one
// begins after its takeover was committed (H20). It returns how many slots are held.
func (t *slotTable) follow(im *metadata.Image, self catalog.Member, drop func(slots []int32)) (held int) {
	var changed []int32
	next := map[int32]*catalog.SlotGuard{}
	for _, g := range im.Slots() {
		var want *catalog.SlotGuard
		if g.Broker == self.Broker && g.Incarnation == self.Incarnation {
			want = &g
			held++
		}
		have := t.held[g.Slot].Load()
		if (have == nil) == (want == nil) && (have == nil || *have == *want) {
			continue
		}
		changed = append(changed, g.Slot)
		next[g.Slot] = want
		t.held[g.Slot].Store(nil)
	}
	if len(changed) == 0 {
		return held
	}
	drop(changed)
	for slot, g := range next {
		t.held[slot].Store(g)
	}
	return held
}

// topicNames translates names and ids by the newest image; a group.Topics.
type topicNames struct{ f *metadata.Follower }

// TopicID implements group.Topics.
func (n topicNames) TopicID(name string) (catalog.TopicID, bool) {
	if t, ok := n.f.Image().Topic(name); ok {
		return t.ID, true
	}
	return catalog.TopicID{}, false
}

// TopicName implements group.Topics.
func (n topicNames) TopicName(id catalog.TopicID) (string, bool) {
	if t, ok := n.f.Image().TopicByID(id); ok {
		return t.Name, true
	}
	return "", false
}
