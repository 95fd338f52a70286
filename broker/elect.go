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
// accepted, any live replica of a partition that has no leader. errs has one entry per partition.
func (c *controller) Elect(ctx context.Context, ids []catalog.PartitionID, acceptLoss bool) (errs []error, err error) {
	term, holds := c.member.controls()
	if !holds {
		return nil, handler.ErrNotController
	}
	if err := c.follower.Refresh(ctx); err != nil {
		return nil, err
	}
	im := c.follower.Image()
	brokers := replication.ByID(im.Registered())
	errs = make([]error, len(ids))
	var es []catalog.Election
	for i, id := range ids {
		e, err := askedElection(im, brokers, id, acceptLoss)
		if errs[i] = err; err == nil {
			es = append(es, e)
		}
	}
	changed, err := c.store.Elect(ctx, term, es)
	if err != nil {
		return nil, err
	}
	done := make(map[catalog.PartitionID]bool, len(changed))
	for _, p := range changed {
		done[p.ID] = true
	}
	for i, id := range ids {
		if errs[i] == nil && !done[id] {
			errs[i] = handler.ErrNotElected
		}
	}
	return errs, c.follower.Refresh(ctx)
}

func askedElection(im *metadata.Image, brokers replication.Brokers, id catalog.PartitionID, acceptLoss bool) (catalog.Election, error) {
	p, ok := im.Partition(id)
	if !ok {
		return catalog.Election{}, catalog.ErrUnknownTopic
	}
	if acceptLoss {
		if p.Leader != catalog.NoBroker {
			return catalog.Election{}, handler.ErrElectionNotNeeded
		}
		if e, _, ok := replication.Elect(p, brokers, replication.Settings{MinISR: 1, Unclean: true}); ok {
			return e, nil
		}
		return catalog.Election{}, handler.ErrNotElected
	}
	if len(p.Replicas) > 0 && p.Leader == p.Replicas[0] {
		return catalog.Election{}, handler.ErrElectionNotNeeded
	}
	if es := replication.Preferred([]catalog.Partition{p}, brokers); len(es) == 1 {
		return es[0], nil
	}
	return catalog.Election{}, handler.ErrNotElected
}
