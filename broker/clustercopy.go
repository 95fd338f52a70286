package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"tidemark/catalog"
)

// saveCopy keeps the newest image in the data directory, so that what it shows can be presented after a
// restart to a catalog that has lost it (H2). It follows the image by a moment.
func (b *Broker) saveCopy() {
	im := b.follower.Image()
	if im.Position == b.savedCopy || im.Position == (catalog.Position{}) {
		return
	}
	raw, err := json.Marshal(im.Copy())
	if err == nil {
		err = b.data.StoreClusterCopy(raw)
	}
	if err != nil {
		b.log.Warn("store the cluster's state", "error", err)
		return
	}
	b.savedCopy = im.Position
}

// presentCopy presents what this broker knew in its last life, before it believes the catalog. If commits
// are missing there it waits until what the brokers know has been taken in, by this one if it is alone.
func (b *Broker) presentCopy(ctx context.Context) error {
	raw := b.data.ClusterCopy()
	if raw == nil {
		return nil
	}
	var c catalog.Copy
	if err := json.Unmarshal(raw, &c); err != nil {
		b.log.Warn("the stored copy of the cluster's state cannot be read; going on without", "error", err)
		return nil
	}
	for {
		_, err := b.opts.Catalog.Pull(ctx, c.Position)
		if !errors.Is(err, catalog.ErrRewound) {
			return err
		}
		stands, err := b.onRewound(ctx, c)
		if err != nil || stands != catalog.Waits {
			return err
		}
		if err := errors.Join(b.member.look(ctx), b.control.step(ctx)); err != nil {
			b.log.Warn("wait for the catalog's repair", "error", err)
		}
		if !rest(ctx, watchEvery) {
			return fmt.Errorf("wait for the catalog's repair: %w", ctx.Err())
		}
	}
}
