package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/catalog"
)

// onRewound is called while the catalog does not hold what this broker has seen: a failover or a restored
// backup has lost commits (H2). Leaders go on with the sets that they have.
func (b *Broker) onRewound(ctx context.Context, c catalog.Copy) (catalog.Rewound, error) {
	b.custody.suspect(fmt.Sprintf("the catalog has lost commits: it does not hold version %d, which broker %d has seen", c.Position.Version, b.id))
	return b.opts.Catalog.ReportRewound(ctx, b.id, c)
}

// repair takes in what the brokers know, once the mark has stood for a lease's length: every live broker
// has pulled by then, and has left its copy if it had seen more than the catalog holds.
func (c *controller) repair(ctx context.Context, term catalog.Controller, marked time.Duration) error {
	if marked < leaseLength {
		return nil
	}
	unknown, err := c.store.Repair(ctx, term)
	if err != nil {
		return fmt.Errorf("repair the catalog: %w", err)
	}
	c.log.Warn("the catalog had lost commits; what the brokers know has been taken in, all epochs rise")
	for _, t := range unknown {
		c.log.Warn("this topic had been deleted, or was made meanwhile; delete it again if it should not be there", "topic", t.Name, "id", t.ID)
	}
	return errors.Join(c.member.look(ctx), c.follower.Refresh(ctx))
}

// suspect stops the removal of objects until an operator agrees; text says why.
func (c *custody) suspect(text string) {
	if c.rewound.CompareAndSwap(nil, &text) {
		c.b.log.Error("no object is removed and no checkpoint is written until `tidemark tier gc --agree-rewound`", "why", text)
	}
}

// watchRewound keeps the removal of objects off at every broker while the catalog is marked, and on again
// once an operator has agreed at one of them: the generation has moved.
func (b *Broker) watchRewound(ctx context.Context) {
	if b.member.marked() > 0 {
		b.custody.suspect("the catalog is marked as one that has lost commits")
	}
	if b.custody.rewound.Load() == nil {
		b.suspected = 0
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	row, err := b.opts.Catalog.Cluster(ctx)
	if err != nil {
		return
	}
	if b.suspected == 0 {
		b.suspected = row.Generation
	}
	if row.Generation > b.suspected && b.tier.SetGeneration(ctx, row.Generation) == nil {
		b.custody.rewound.Store(nil)
		b.custody.sound.Store(true)
	}
}

// catalogAge is how long the catalog has not answered, a lease's length at least while everybody is given
// time to show that they are alive (H7).
func (b *Broker) catalogAge() time.Duration {
	age := b.follower.Age()
	if b.member.quiet() {
		return max(age, leaseLength+1)
	}
	return age
}
