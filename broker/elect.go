package broker

import (
	"context"

	"tidemark/broker/handler"
	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/replication"
)

// ID is the controller as far as this broker has seen, catalog.NoBroker if nobody has the role; with
// Elect it is what handlers ask of the controller.
func (c *controller) ID() catalog.BrokerID {
	row, _ := c.member.controller()
	return row.Broker
}

// Elect elects leaders as an administrator asks: preferred ones where they are in sync, or, if loss is
// accepted, for a partition that has no leader the live replica whose log reaches farthest. errs has one entry per
// partition.
func (c *controller) Elect(ctx context.Context, ids []catalog.PartitionID, acceptLoss bool) (errs []error, err error) {
	term, holds := c.member.controls()
	if !holds {
		return nil, handler.ErrNotController
	}
	if err := c.follower.Refresh(ctx); err != nil {
		return nil, err
	}
	var es []catalog.Election
	if im := c.follower.Image(); acceptLoss {
		es, errs = c.electWithLoss(ctx, im, ids)
	} else {
		es, errs = electPreferred(im, ids)
	}
	changed, err := c.store.Elect(ctx, term, es)
	if err != nil {
		return nil, err
	}
	refused := handler.ErrPreferredNotElected
	if acceptLoss {
		refused = handler.ErrNotElected
	}
	done := make(map[catalog.PartitionID]bool, len(changed))
	for _, p := range changed {
		done[p.ID] = true
	}
	for i, id := range ids {
		if errs[i] == nil && !done[id] {
			errs[i] = refused
		}
	}
	return errs, c.follower.Refresh(ctx)
}

// electWithLoss decides on those of the partitions that have no leader.
func (c *controller) electWithLoss(ctx context.Context, im *metadata.Image, ids []catalog.PartitionID) ([]catalog.Election, []error) {
	errs := make([]error, len(ids))
	var without []leaderless
	for i, id := range ids {
		t, ok := im.TopicByID(id.Topic)
		p, there := im.Partition(id)
		switch {
		case !ok || !there:
			errs[i] = catalog.ErrUnknownTopic
		case p.Leader != catalog.NoBroker:
			errs[i] = handler.ErrElectionNotNeeded
		default:
			set := settingsOf(t)
			set.Unclean = true
			without = append(without, leaderless{p, t.Name, set})
		}
	}
	return c.acceptLoss(ctx, without, replication.ByID(im.Registered())), errs
}

// electPreferred gives partitions to the first of their replicas where it is in sync.
func electPreferred(im *metadata.Image, ids []catalog.PartitionID) (es []catalog.Election, errs []error) {
	brokers := replication.ByID(im.Registered())
	errs = make([]error, len(ids))
	for i, id := range ids {
		p, ok := im.Partition(id)
		switch {
		case !ok:
			errs[i] = catalog.ErrUnknownTopic
		case len(p.Replicas) > 0 && p.Leader == p.Replicas[0]:
			errs[i] = handler.ErrElectionNotNeeded
		default:
			es = append(es, replication.Preferred([]catalog.Partition{p}, brokers)...)
		}
	}
	return es, errs
}
