package catalog

import (
	"context"
	"slices"
)

// HoldsObjects says whether a catalog names objects, so that an empty bucket cannot be the one. Errors: Pull's.
func HoldsObjects(ctx context.Context, c States) (bool, error) {
	all, err := c.Pull(ctx, Position{})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all.Partitions, func(p Partition) bool { return p.Tiered > p.Start }), nil
}
