package partition

import (
	"context"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// Lead begins the leadership that the catalog's row names. clean says that the election came from the
// in-sync set and the log is the one that was in it; otherwise the log is compared with the tier first
// (R18). It does nothing if that leadership is held already. An error leaves the partition without
// leader; the caller tries again.
func (p *Partition) Lead(ctx context.Context, row catalog.Partition, inc catalog.Incarnation, clean bool) error {
	if l := p.role.Load(); l != nil && l.guard.Epoch == row.LeaderEpoch && l.guard.Incarnation == inc {
		p.updateISR(l, row)
		return nil
	}
	p.Unlead()
	if err := p.log.Failed(); err != nil {
		return err
	}
	row, err := p.env.catalog.Partition(ctx, p.ID) // start and tiered as they are now
	if err != nil {
		return fmt.Errorf("lead %s-%d: %w", p.Name, p.ID.Partition, err)
	}
	if err := p.agreeWithTier(ctx, row, clean); err != nil {
		return fmt.Errorf("lead %s-%d at epoch %d: %w", p.Name, p.ID.Partition, row.LeaderEpoch, err)
	}
	if err := p.log.AssignEpoch(row.LeaderEpoch); err != nil {
		return fmt.Errorf("lead %s-%d: %w", p.Name, p.ID.Partition, err)
	}
	p.observe(row.Bounds)
	p.log.TrimEpochs(row.Start)
	raise(&p.hw, max(row.Start, row.Tiered))
	l := &leadership{
		guard: catalog.Guard{Broker: row.Leader, Incarnation: inc, Epoch: row.LeaderEpoch},
		isr:   len(row.ISR), replicas: len(row.Replicas), ended: make(chan struct{}),
	}
	p.roleMu.Lock()
	p.role.Store(l)
	p.roleMu.Unlock()
	p.advance(l)
	p.tierOnOff()
	p.touch()
	p.env.poke()
	return nil
}

// updateISR takes over the size of the in-sync set of a leadership that goes on.
func (p *Partition) updateISR(l *leadership, row catalog.Partition) {
	if l.isr == len(row.ISR) && l.replicas == len(row.Replicas) {
		return
	}
	next := &leadership{guard: l.guard, isr: len(row.ISR), replicas: len(row.Replicas), ended: l.ended}
	p.roleMu.Lock()
	p.role.Store(next)
	p.roleMu.Unlock()
	p.advance(next)
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
	close(l.ended)
	p.waiters.wake()
	p.env.tier.Unlead(p.ID)
}

// tierOnOff gives the partition to the uploads or takes it away, as remote.storage.enable says.
func (p *Partition) tierOnOff() {
	if p.role.Load() == nil {
		return
	}
	if p.cfg.Load().RemoteStorageEnable {
		p.env.tier.Lead(p.ID, source{p})
	} else {
		p.env.tier.Unlead(p.ID)
	}
}

// agreeWithTier makes the log one that may lead: it reaches what the tier and start cover, begins no
// higher, and, after an election that was not clean, has the tier's epochs where both have records.
func (p *Partition) agreeWithTier(ctx context.Context, row catalog.Partition, clean bool) error {
	floor := max(row.Start, row.Tiered)
	b := p.log.Bounds()
	if b.LocalStart > floor && b.End > b.LocalStart {
		return fmt.Errorf("%w: the tier ends at %d, the log begins at %d", ErrHole, floor, b.LocalStart)
	}
	reset := b.End < floor || b.LocalStart > floor
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
