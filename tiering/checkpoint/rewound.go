package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/catalog"
	"tidemark/tiering/objstore"
)

// CheckRewound holds the catalog against the newest checkpoint of its generation: catalog.ErrRewound, with
// a sentence, if the catalog has never been where the checkpoint saw it, because it was restored from a
// backup or lost commits (H2). Other errors say that bucket or catalog could not be asked.
func CheckRewound(ctx context.Context, store objstore.Store, c Catalog) error {
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return err
	}
	newest, _, err := Newest(ctx, store, cluster.Generation)
	if errors.Is(err, ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = c.Pull(ctx, newest.Position)
	if errors.Is(err, catalog.ErrRewound) {
		return fmt.Errorf("the checkpoint of %s in the bucket has seen more than the catalog holds: %w", newest.At.UTC().Format(time.RFC3339), err)
	}
	return err
}
