package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"tidemark/broker/metadata"
	"tidemark/broker/partition"
	"tidemark/catalog"
	"tidemark/replication"
)

// controllerTimeout bounds one call of the controller.
const controllerTimeout = 3 * time.Second

// controllerStore is what the controller does in the catalog.
type controllerStore interface {
	catalog.Controllers
	catalog.Rewinds
}

// controller decides for the cluster while this broker has the role: it takes dead brokers out, elects
// leaders, gives slots, and spreads leaders and slots. Its decisions are replication's; what guards them
// is the term (K7). It takes the role when nobody has it or its holder's lease has stood still.
type controller struct {
	store    controllerStore
	member   *member
	self     catalog.Member
	follower *metadata.Follower
	log      *slog.Logger
	metrics  *clusterMetrics
	// logEnds asks replicas how far their logs reach, within a bound; partition.Set's.
	logEnds func(ctx context.Context, ask []partition.LogEndAsk) map[catalog.PartitionID]replication.Logs
	// balanceDelay is how long leaders or slots must be badly spread before they are moved.
	balanceDelay time.Duration

	wake       chan struct{} // the image has changed
	unevenFrom time.Time     // since when balancing would move something; zero: nothing
}

// poke makes the controller look again.
func (c *controller) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run looks whenever leases have been seen or the image has changed, until ctx ends.
func (c *controller) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		case <-c.member.seen:
		}
		if err := c.step(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("controller", "error", err)
		}
	}
}

// step does what is due.
func (c *controller) step(ctx context.Context) error {
	term, holds := c.member.controls()
	c.metrics.controls.Set(0)
	if !holds {
		var err error
		call, cancel := context.WithTimeout(ctx, controllerTimeout)
		term, holds, err = c.takeRole(call)
		cancel()
		if err != nil || !holds {
			return err
		}
	}
	c.metrics.controls.Set(1)
	err := c.decide(ctx, term)
	if errors.Is(err, catalog.ErrFenced) {
		c.member.setTerm(catalog.Controller{}, 0)
	}
	return err
}

// takeRole becomes the controller if that is possible now.
func (c *controller) takeRole(ctx context.Context) (catalog.Controller, bool, error) {
	row, free := c.member.controller()
	own := row.Broker == c.self.Broker && row.Incarnation == c.self.Incarnation
	if !free && (!own || c.member.quiet()) {
		return row, false, nil
	}
	sent := c.member.now()
	term, err := c.store.TakeController(ctx, c.self.Broker, c.self.Incarnation, row)
	switch {
	case errors.Is(err, catalog.ErrHeld):
		return row, false, nil // another was faster
	case err != nil:
		return row, false, fmt.Errorf("become the controller: %w", err)
	}
	c.member.setTerm(term, sent)
	c.log.Info("this broker is the controller", "term", term.Epoch)
	return term, true, nil
}

// decide takes out who is dead, then gives leaders and slots to what has none, then spreads them.
func (c *controller) decide(all context.Context, term catalog.Controller) error {
	ctx, cancel := context.WithTimeout(all, controllerTimeout)
	defer cancel()
	dead, quiet := c.member.dead()
	if marked := c.member.marked(); marked > 0 {
		return c.repair(ctx, term, marked)
	}
	if len(dead) > 0 {
		if err := c.takeOut(ctx, term, dead); err != nil {
			return err
		}
	}
	if quiet {
		return nil
	}
	im := c.follower.Image()
	brokers := replication.ByID(im.Registered())
	ends := finishedMoves(im, brokers)
	c.metrics.moved.Add(float64(len(ends)))
	clean, lossy := c.elections(im, brokers)
	es := append(clean, ends...)
	moves := replication.AssignSlots(im.Slots(), brokers)
	forced, asked := split(lossy, brokers)
	es = append(es, c.acceptLoss(ctx, forced, brokers)...)
	if len(es) == 0 && len(moves) == 0 && len(asked) > 0 {
		es = c.acceptLoss(ctx, asked, brokers) // last, since it asks other brokers
	}
	if len(es) == 0 && len(moves) == 0 {
		if es, moves = c.balance(im, brokers); len(es) == 0 && len(moves) == 0 {
			return nil
		}
	}
	return c.place(all, term, es, moves)
}

// electMax bounds the partitions of one transaction, which has a deadline: a start with ten thousand of them on a busy machine
// did not meet it.
const electMax = 1000

// place gives leaders and slots; each call has its own time.
func (c *controller) place(ctx context.Context, term catalog.Controller, es []catalog.Election, moves []catalog.SlotMove) error {
	for some := range slices.Chunk(es, electMax) {
		call, cancel := context.WithTimeout(ctx, controllerTimeout)
		_, err := c.store.Elect(call, term, some)
		cancel()
		if err != nil {
			return fmt.Errorf("elect leaders: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, controllerTimeout)
	defer cancel()
	if _, err := c.store.AssignSlots(ctx, term, moves); err != nil {
		return fmt.Errorf("assign coordinator slots: %w", err)
	}
	return c.follower.Refresh(ctx)
}

// takeOut ends brokers and hands over what they had, in one transaction.
func (c *controller) takeOut(ctx context.Context, term catalog.Controller, dead []catalog.BrokerLease) error {
	gone, err := c.store.TakeOut(ctx, term, dead, departure(c.follower.Image()))
	if err != nil {
		return fmt.Errorf("take out brokers: %w", err)
	}
	c.metrics.takenOut.Add(float64(len(gone)))
	for _, id := range gone {
		c.log.Warn("a broker's lease ran out; it is taken out of every in-sync set", "broker", id)
	}
	return c.follower.Refresh(ctx)
}

// departure is replication.Depart with the settings of an image.
func departure(im *metadata.Image) catalog.Departure {
	return func(l catalog.Left) catalog.Given {
		return replication.Depart(l, func(id catalog.PartitionID) replication.Settings {
			if t, ok := im.TopicByID(id.Topic); ok {
				return settingsOf(t)
			}
			return replication.Settings{MinISR: 1}
		})
	}
}

func settingsOf(t *metadata.Topic) replication.Settings {
	return replication.Settings{MinISR: t.Effective.MinInsyncReplicas, Unclean: t.Effective.UncleanLeaderElectionEnable, Topic: t.Version}
}

// elections decides leaders for the partitions that have none. lossy are those that only a replica from outside the
// in-sync and the eligible set can lead, where the topic allows it.
func (c *controller) elections(im *metadata.Image, brokers replication.Brokers) (clean []catalog.Election, lossy []leaderless) {
	for _, t := range im.Topics() {
		for _, p := range t.Partitions {
			if p.Leader != catalog.NoBroker {
				continue
			}
			e, loss, ok := replication.Elect(p, brokers, settingsOf(t), nil)
			switch {
			case !ok:
			case loss == replication.NoLoss:
				c.metrics.clean.Inc()
				clean = append(clean, e)
			default:
				lossy = append(lossy, leaderless{p, t.Name, settingsOf(t)})
			}
		}
	}
	return clean, lossy
}

// leaderless is a partition without a leader, and the settings that an election of one goes by.
type leaderless struct {
	catalog.Partition
	topic string
	set   replication.Settings
}

// split parts those that one replica alone can lead from those whose replicas' logs have to be asked.
func split(lossy []leaderless, brokers replication.Brokers) (forced, asked []leaderless) {
	for _, p := range lossy {
		if len(replication.LogsDecide(p.Partition, brokers, p.set)) == 0 {
			forced = append(forced, p)
		} else {
			asked = append(asked, p)
		}
	}
	return forced, asked
}

// acceptLoss elects by how far the logs of the live replicas reach.
func (c *controller) acceptLoss(ctx context.Context, ps []leaderless, brokers replication.Brokers) []catalog.Election {
	var ask []partition.LogEndAsk
	for _, p := range ps {
		if replicas := replication.LogsDecide(p.Partition, brokers, p.set); len(replicas) > 0 {
			ask = append(ask, partition.LogEndAsk{ID: p.ID, Topic: p.topic, Replicas: replicas})
		}
	}
	var logs map[catalog.PartitionID]replication.Logs
	if len(ask) > 0 {
		logs = c.logEnds(ctx, ask)
	}
	var es []catalog.Election
	for _, p := range ps {
		e, loss, ok := replication.Elect(p.Partition, brokers, p.set, logs[p.ID])
		if !ok {
			continue
		}
		if loss == replication.NoLoss {
			c.metrics.clean.Inc()
		} else {
			c.metrics.mayLose.Inc()
			c.log.Warn("electing a leader from outside the in-sync set: records that only lost disks held are gone",
				"topic", p.topic, "partition", p.ID.Partition, "leader", e.Leader, "tiered", p.Tiered, "logs", logs[p.ID].String())
		}
		es = append(es, e)
	}
	return es
}

// finishedMoves ends the moves whose target is in sync.
func finishedMoves(im *metadata.Image, brokers replication.Brokers) []catalog.Election {
	var es []catalog.Election
	for _, t := range im.Topics() {
		for _, p := range t.Partitions {
			if e, ok := replication.FinishMove(p, brokers, settingsOf(t)); ok {
				es = append(es, e)
			}
		}
	}
	return es
}

// balance gives leaderships back to preferred replicas, and slots to who has too few, once that has been
// possible for balanceDelay without a break.
func (c *controller) balance(im *metadata.Image, brokers replication.Brokers) ([]catalog.Election, []catalog.SlotMove) {
	var es []catalog.Election
	for _, t := range im.Topics() {
		es = append(es, replication.Preferred(t.Partitions, brokers)...)
	}
	moves := replication.BalanceSlots(im.Slots(), brokers)
	switch {
	case len(es) == 0 && len(moves) == 0:
		c.unevenFrom = time.Time{}
	case c.unevenFrom.IsZero():
		c.unevenFrom = time.Now()
	case time.Since(c.unevenFrom) >= c.balanceDelay:
		c.unevenFrom = time.Time{}
		c.metrics.spread.Add(float64(len(es)))
		c.log.Info("spreading leaders and coordinator slots", "leaders", len(es), "slots", len(moves))
		return es, moves
	}
	return nil, nil
}
