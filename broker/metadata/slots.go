package metadata

import "tidemark/catalog"

// Slot is who holds a coordinator slot; its Broker is catalog.NoBroker if nobody does.
func (im *Image) Slot(n int32) catalog.SlotGuard { return im.slots[n] }

// Slots are all coordinator slots by number.
func (im *Image) Slots() []catalog.SlotGuard { return im.slots[:] }

// nextSlots is the slots after ch. Slots that a catalog does not name are nobody's.
func (im *Image) nextSlots(ch catalog.Changes) [catalog.Slots]catalog.SlotGuard {
	next := im.slots
	if ch.Full {
		for i := range next {
			next[i] = catalog.SlotGuard{Slot: int32(i), Broker: catalog.NoBroker}
		}
	}
	for _, g := range ch.Slots {
		if g.Slot >= 0 && int(g.Slot) < len(next) {
			next[g.Slot] = g
		}
	}
	return next
}
