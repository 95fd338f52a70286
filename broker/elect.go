package broker

import (
	"context"
	"log/slog"
	"time"

	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/replication"
)

// elector gives leaders to partitions that have none.
type elector struct {
	store catalog.Controllers
	self  catalog.Controller
	log   *slog.Logger
	wake  chan struct{}
}

func newElector(s catalog.Controllers, log *slog.Logger) *elector {
	return &elector{store: s, log: log, wake: make(chan struct{}, 1)}
}

// take makes this broker the controller; a single broker needs nobody's leave.
func (e *elector) take(ctx context.Context, id catalog.BrokerID, inc catalog.Incarnation) error {
	ls, err := e.store.Leases(ctx)
	if err == nil {
		e.self, err = e.store.TakeController(ctx, id, inc, ls.Controller)
	}
	return err
}

// wakeIfNeeded asks for elections if the image has a partition without leader.
func (e *elector) wakeIfNeeded(im *metadata.Image) {
	if len(e.plan(im)) == 0 {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// plan decides the elections that the image asks for.
func (e *elector) plan(im *metadata.Image) []catalog.Election {
	brokers := replication.ByID(im.Registered())
	var es []catalog.Election
	for _, t := range im.Topics() {
		for _, p := range t.Partitions {
			if p.Leader != catalog.NoBroker {
				continue
			}
			el, loss, ok := replication.Elect(p, brokers, replication.Settings{MinISR: t.Effective.MinInsyncReplicas, Unclean: t.Effective.UncleanLeaderElectionEnable})
			if !ok {
				continue
			}
			if loss == replication.MayLose {
				e.log.Warn("electing a leader from outside the in-sync set: records that only its lost disk held are gone",
					"topic", t.Name, "partition", p.ID.Partition, "leader", el.Leader, "tiered", p.Tiered)
			}
			es = append(es, el)
		}
	}
	return es
}

// once elects what the image asks for.
func (e *elector) once(ctx context.Context, im *metadata.Image) error {
	es := e.plan(im)
	if len(es) == 0 {
		return nil
	}
	_, err := e.store.Elect(ctx, e.self, es)
	return err
}

// runElections elects whenever an image has a partition without leader, until ctx ends.
func (b *Broker) runElections(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.elect.wake:
		}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := b.elect.once(call, b.follower.Image())
		if err == nil {
			err = b.follower.Refresh(call)
		}
		cancel()
		if err != nil && ctx.Err() == nil {
			b.log.Warn("elect leaders", "error", err)
		}
	}
}
