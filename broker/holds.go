package broker

import (
	"context"
	"slices"

	"tidemark/catalog"
)

// holdsObjects says whether the catalog names objects, so that an empty bucket cannot be the one.
func holdsObjects(ctx context.Context, c catalog.States) (bool, error) {
	all, err := c.Pull(ctx, catalog.Position{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all.Partitions, func(p catalog.Partition) bool { return p.Tiered > p.Start }), nil
}
