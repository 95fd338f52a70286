package metadata

import (
	"maps"
	"slices"

	"tidemark/catalog"
)

// Placeable lists the brokers that may get replicas, live or not, by id.
func (im *Image) Placeable() []catalog.Broker {
	return slices.DeleteFunc(im.Registered(), func(b catalog.Broker) bool { return b.Leaving })
}

// Registered lists all brokers that were ever registered, live or not, by id.
func (im *Image) Registered() []catalog.Broker {
	return slices.SortedFunc(maps.Values(im.brokers), func(a, b catalog.Broker) int { return int(a.ID - b.ID) })
}
