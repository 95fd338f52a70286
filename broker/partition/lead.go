package partition

import (
	"context"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/replication"
)

// Lead begins the leadership that the image's row names; now is how the catalog shows the partition since then. clean says that the log is known to agree with the
// tier: the one that was in the in-sync set, or that followed the epoch before; otherwise the log is compared with
// the tier first (R18). Where that leadership is held already it takes over the row's in-sync set. An error leaves
// the partition without leader; the caller tries again.
func (p *Partition) Lead(ctx context.Context, row catalog.Partition, now catalog.Standing, inc catalog.Incarnation, clean bool) error {
	if l := p.role.Load(); l != nil && l.guard.Epoch == row.LeaderEpoch && l.guard.Incarnation == inc {
		p.observeRow(l, row)
		return nil
	}
	p.Unlead()
	p.Unfollow()
	if err := p.log.Failed(); err != nil {
		return err
	}
	if now.Leader != row.Leader || now.LeaderEpoch != row.LeaderEpoch {
		return fmt.Errorf("%w: %s-%d: broker %d leads epoch %d by now", ErrNotLeader, p.Name, p.ID.Partition, now.Leader, now.LeaderEpoch)
	}
	if err := p.agreeWithTier(ctx, now.Partition, clean); err != nil {
		return fmt.Errorf("lead %s-%d at epoch %d: %w", p.Name, p.ID.Partition, now.LeaderEpoch, err)
	}
	if err := p.log.AssignEpoch(now.LeaderEpoch); err != nil {
		return fmt.Errorf("lead %s-%d: %w", p.Name, p.ID.Partition, err)
	}
	p.observe(now.Bounds)
	p.log.TrimEpochs(now.Start)
	raise(&p.hw, max(now.Start, now.Tiered))
	p.begin(newLeadership(
		catalog.Guard{Broker: now.Leader, Incarnation: inc, Epoch: now.LeaderEpoch},
		replication.FollowersOptions{
			Self: catalog.Member{Broker: now.Leader, Incarnation: inc}, Row: now.Partition, Began: p.log.Bounds().End,
			MinISR: p.cfg.Load().MinInsyncReplicas, LagMax: p.env.lagMax, Now: p.env.mono(),
		}), now)
	return nil
}

// begin puts a leadership in force.
func (p *Partition) begin(l *leadership, now catalog.Standing) {
	p.roleMu.Lock()
	p.role.Store(l)
	p.aligned.Store(int32(l.guard.Epoch))
	p.advance(l)
	p.roleMu.Unlock()
	p.moved()
	if now.Left {
		p.tierOnOff(nil)
	} else {
		p.tierOnOff(&now.Bounds)
	}
	p.touch()
	p.env.poke()
}

// observeRow takes over the row of a leadership that goes on.
func (p *Partition) observeRow(l *leadership, row catalog.Partition) {
	l.mu.Lock()
	same := !l.followers.Moves(row)
	l.mu.Unlock()
	if same {
		return
	}
	p.changeInSync(l, func(f *replication.Followers) { f.Row(row, p.env.mono()) })
}

// Unlead ends the leadership: waits for acknowledgements fail, then uploads stop. Appends in progress
// are finished first.
func (p *Partition) Unlead() {
	p.roleMu.Lock()
	l := p.role.Swap(nil)
	p.roleMu.Unlock()
	if l == nil {
		return
	}
	p.moved()
	p.env.tier.Unlead(p.ID)
}

// tierOnOff gives the partition to the uploads or takes it away, as remote.storage.enable says. clean is tiering.Lead's.
func (p *Partition) tierOnOff(clean *catalog.Bounds) {
	if p.role.Load() == nil {
		return
	}
	if p.cfg.Load().RemoteStorageEnable {
		p.env.tier.Lead(p.ID, source{p}, clean)
	} else {
		p.env.tier.Unlead(p.ID)
	}
}

// agreeWithTier makes the log one that may lead: it reaches what the tier and start cover, begins no
// higher, and, after an election that was not clean, has the tier's epochs where both have records.
func (p *Partition) agreeWithTier(ctx context.Context, row catalog.Partition, clean bool) error {
	floor := max(row.Start, row.Tiered)
	b := p.log.Bounds()
	if b.LocalStart > floor { // also of a log whose records have all been freed: its offsets have been given
		return fmt.Errorf("%w: the tier ends at %d, the log begins at %d", ErrHole, floor, b.LocalStart)
	}
	reset := b.End < floor
	if !reset && !clean && b.LocalStart < row.Tiered {
		tier, err := p.env.tier.State(ctx, p.ID)
		if err != nil {
			return fmt.Errorf("compare epochs with the tier: %w", err)
		}
		reset = !p.log.Epochs().EqualOn(tier.Epochs, max(b.LocalStart, row.Start), row.Tiered)
	}
	if !reset {
		return nil
	}
	epochs, state, err := p.tierState(ctx, row)
	if err != nil {
		return err
	}
	p.env.metrics.resets.Inc()
	p.out.Warn("the local log gives way to the object tier", "local_start", b.LocalStart, "end", b.End, "begins_at", floor)
	if state != nil {
		state.EndOpen()
	}
	if err := p.log.Reset(floor, epochs, state); err != nil {
		return fmt.Errorf("begin the log at %d: %w", floor, err)
	}
	p.hw.Store(int64(floor))
	return nil
}

// tierState is what a log that begins at tiered has to know of what lies below (R11).
func (p *Partition) tierState(ctx context.Context, row catalog.Partition) (record.EpochHistory, *producer.State, error) {
	if row.Tiered == row.Start && row.TierBytes == 0 {
		return record.EpochHistory{}, nil, nil
	}
	tier, err := p.env.tier.State(ctx, p.ID)
	if err != nil {
		return record.EpochHistory{}, nil, fmt.Errorf("read the tier's state at %d: %w", row.Tiered, err)
	}
	return tier.Epochs, tier.Producers, nil
}
