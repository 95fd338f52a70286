package broker

import (
	"context"
	"time"
)

// releaseTimeout bounds the transaction that gives everything up.
const releaseTimeout = 3 * time.Second

// keepMember ends when the lease cannot be kept any more, with the reason, or with ctx.
func (b *Broker) keepMember(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.member.failed:
			return b.member.close()
		case <-tick.C:
			b.storeIncarnation()
			b.watchRewound(ctx)
			b.watchLost(ctx)
			b.saveCopy()
		}
	}
}

// handOver gives leaderships, slots and places in in-sync sets to the others while this broker still
// answers, so that clients are told at once where to go (L3). Alone it does nothing: requests in progress
// are finished first.
func (b *Broker) handOver() {
	if len(b.follower.Image().Brokers()) < 2 {
		return
	}
	b.release()
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	if err := b.follower.Refresh(ctx); err != nil {
		b.log.Warn("read what became of this broker's partitions", "error", err)
	}
}

// release gives the registration back and hands over what comes with it. More calls change nothing.
func (b *Broker) release() {
	fenced := b.fenced()
	_ = b.member.close() // what it failed with, Run has returned
	if fenced {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	err := b.opts.Catalog.Release(ctx, b.id, b.registered.Incarnation, departure(b.follower.Image()))
	if err != nil {
		b.log.Warn("give the registration back; the others wait for the lease to run out", "error", err)
	}
}

// fenced says whether the lease was lost.
func (b *Broker) fenced() bool {
	select {
	case <-b.member.failed:
		return true
	default:
		return false
	}
}

// dropSlots forgets the groups of slots.
func (b *Broker) dropSlots(slots []int32) {
	if b.groups != nil {
		b.groups.DropSlots(slots)
	}
}
