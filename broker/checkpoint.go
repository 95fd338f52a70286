package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/tiering/audit"
	"tidemark/tiering/checkpoint"
	"tidemark/tiering/objstore"
)

// custody is what this broker does for the bucket as a whole: checkpoints of the catalog, the scrub, and
// the watch over a catalog that went back in time.
type custody struct {
	b        *Broker
	store    objstore.Store // with the priority of GC
	writer   *checkpoint.Writer
	auditor  *audit.Auditor
	scrubber *audit.Scrubber // nil: switched off
	topics   topicsSeen
	// sound says that catalog and bucket have been compared since the start and fit; rewound is the
	// sentence if they do not.
	sound   atomic.Bool
	rewound atomic.Pointer[string]
}

// topicsSeen changes whenever topics are made, changed or deleted.
type topicsSeen struct {
	count  int
	newest catalog.Version
}

// openCustody makes the writer of checkpoints and the scrub.
func (b *Broker) openCustody(context.Context) (err error) {
	t := b.opts.Config.Tier
	c := b.custody
	if c.writer, err = checkpoint.NewWriter(checkpoint.Options{
		Store: c.store, Catalog: b.opts.Catalog, Broker: b.id, Mine: c.mine, Every: t.CheckpointInterval,
		Logger: b.log.With("part", "checkpoint"), Metrics: b.opts.Registry,
	}); err != nil {
		return err
	}
	if c.auditor, err = audit.New(audit.Options{
		Store: c.store, Catalog: b.opts.Catalog, Cluster: b.cluster.ID, Logger: b.log.With("part", "audit"),
	}); err != nil {
		return err
	}
	if t.ScrubBandwidth == 0 {
		return nil
	}
	c.scrubber, err = audit.NewScrubber(audit.ScrubOptions{
		Auditor: c.auditor, Partitions: c.led, Bucket: c.mine, Ready: b.tier.Ready,
		BytesPerSecond: int64(t.ScrubBandwidth), Every: t.ScrubInterval, First: min(time.Minute, t.ScrubInterval), Metrics: b.opts.Registry,
	})
	return err
}

// mine says whether this broker looks after the bucket: the live one with the lowest id does, and only
// while the catalog is known to fit the bucket.
func (c *custody) mine() bool {
	bs := c.b.follower.Image().Brokers()
	return c.mayRemove() && len(bs) > 0 && bs[0].ID == c.b.id
}

// mayRemove says whether objects may be removed: not before the catalog has been held against the bucket,
// and not if it has gone back in time (H2).
func (c *custody) mayRemove() bool {
	return c.b.tier.Ready() && c.sound.Load() && c.rewound.Load() == nil
}

// follow wakes the writer when topics have changed.
func (c *custody) follow(im *metadata.Image) {
	seen := topicsSeen{count: len(im.Topics())}
	for _, t := range im.Topics() {
		seen.newest = max(seen.newest, t.Version)
	}
	if c.writer != nil && seen != c.topics {
		c.topics = seen
		c.writer.Wake()
	}
}

// run does its work until ctx ends.
func (c *custody) run(ctx context.Context) error {
	if !c.compare(ctx) {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.writer.Run(ctx) })
	if c.scrubber != nil {
		g.Go(func() error { return c.scrubber.Run(ctx) })
	}
	return g.Wait()
}

// compare holds the catalog against the newest checkpoint, as often as it takes to get an answer; false
// if ctx has ended.
func (c *custody) compare(ctx context.Context) bool {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if c.b.tier.Ready() {
			call, cancel := context.WithTimeout(ctx, 30*time.Second)
			err := checkpoint.CheckRewound(call, c.store, c.b.opts.Catalog)
			cancel()
			switch {
			case err == nil:
				c.sound.Store(true)
				return true
			case errors.Is(err, catalog.ErrRewound):
				text := err.Error()
				c.rewound.Store(&text)
				c.b.log.Error("the catalog has gone back in time: no object is removed and no checkpoint is written until `tidemark tier gc --agree-rewound`", "err", err)
				return true
			case ctx.Err() == nil:
				c.b.log.Debug("the catalog could not be compared with the bucket yet", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// led lists the led partitions of topics with an object tier.
func (c *custody) led() []audit.Partition {
	var out []audit.Partition
	im := c.b.follower.Image()
	for _, p := range c.b.parts.All() {
		t, ok := im.TopicByID(p.ID.Topic)
		if row, known := im.Partition(p.ID); ok && known && row.Leader == c.b.id {
			out = append(out, audit.Partition{ID: p.ID, Topic: t.Name})
		}
	}
	return out
}

// warnings are what /readyz says of the bucket.
func (c *custody) warnings() []string {
	var out []string
	if text := c.rewound.Load(); text != nil {
		out = append(out, "nothing is removed from the bucket until an operator agrees (`tidemark tier gc --agree-rewound`): "+*text)
	}
	if c.scrubber == nil {
		return out
	}
	if known := c.scrubber.Known(); len(known) > 0 {
		out = append(out, fmt.Sprintf("the scrub found %d problems in the object tier (`tidemark tier verify` lists them), first: %s", len(known), known[0]))
	}
	return out
}
