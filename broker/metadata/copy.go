package metadata

import (
	"slices"

	"tidemark/catalog"
)

// Copy is the image as a broker presents it to a catalog that has gone back in time (H2).
func (im *Image) Copy() catalog.Copy {
	c := catalog.Copy{Position: im.Position, Slots: slices.Clone(im.slots[:])}
	for _, t := range im.byID {
		c.Topics = append(c.Topics, t.Topic)
		c.Partitions = append(c.Partitions, t.Partitions...)
	}
	return c
}
