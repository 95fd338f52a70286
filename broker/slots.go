package broker

import (
	"context"
	"fmt"

	"tidemark/broker/group"
	"tidemark/broker/metadata"
	"tidemark/catalog"
)

// slotTable is the coordinator slots that this broker holds. A single broker holds all of them.
type slotTable struct {
	held [catalog.Slots]catalog.SlotGuard
}

// take takes all slots; each one's epoch rises, which fences whoever held it (H20).
func (t *slotTable) take(ctx context.Context, s catalog.CoordinatorSlots, id catalog.BrokerID, inc catalog.Incarnation) error {
	all := make([]int32, catalog.Slots)
	for i := range all {
		all[i] = int32(i)
	}
	guards, err := s.TakeSlots(ctx, id, inc, all)
	if err != nil {
		return fmt.Errorf("take the coordinator slots: %w", err)
	}
	for _, g := range guards {
		t.held[g.Slot] = g
	}
	return nil
}

// guard is group.Options.Guard.
func (t *slotTable) guard(name string) (catalog.SlotGuard, bool) {
	return t.held[group.SlotOf(name)], true
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
