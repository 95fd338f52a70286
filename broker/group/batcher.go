package group

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/catalog"
)

// batcher gathers commits into one statement per window (P9). One batch is
// under way at a time, so the values of a key reach the store in order; of
// those that wait the last stands for all.
type batcher struct {
	opts *Options
	wake chan struct{}

	mu     sync.Mutex
	order  []commitKey
	queued map[commitKey]*queuedCommit
	closed bool
}

type commitKey struct {
	group string
	id    catalog.PartitionID
}

type queuedCommit struct {
	e       *entry
	write   catalog.OffsetWrite
	waiters []commitWaiter
}

// commitWaiter is one partition of one call.
type commitWaiter struct {
	call *commitCall
	code *Code
	byID bool
}

// commitCall answers once all its partitions are settled.
type commitCall struct {
	left atomic.Int64
	resp CommitResponse
	done func(CommitResponse)
}

func (c *commitCall) settle(n int) {
	if c.left.Add(int64(-n)) == 0 {
		c.done(c.resp)
	}
}

// commitItem is a write that is offered with the partition that waits for it.
type commitItem struct {
	write  catalog.OffsetWrite
	waiter commitWaiter
}

// add queues all items or, for lack of room, none. It is called under e.mu,
// which keeps the commits of a group in order.
func (b *batcher) add(e *entry, items []commitItem) Code {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return CoordinatorNotAvailable
	}
	if len(b.order)+len(items) > b.opts.MaxQueued {
		b.opts.Metrics.refused.Add(float64(len(items)))
		return CoordinatorLoading
	}
	for _, it := range items {
		key := commitKey{e.id, it.write.Partition}
		q := b.queued[key]
		if q == nil {
			q = &queuedCommit{}
			b.queued[key] = q
			b.order = append(b.order, key)
		}
		q.e, q.write = e, it.write
		q.waiters = append(q.waiters, it.waiter)
		e.cache.queued(it.write.Partition)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return OK
}

func (b *batcher) takeBatch(limit int) []*queuedCommit {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(limit, len(b.order))
	batch := make([]*queuedCommit, n)
	for i, key := range b.order[:n] {
		batch[i] = b.queued[key]
		delete(b.queued, key)
	}
	if b.order = b.order[n:]; len(b.order) == 0 {
		b.order = nil
	}
	return batch
}

// run writes batches until ctx ends; settled hears of each.
func (b *batcher) run(ctx context.Context, settled func(batch []*queuedCommit, errs []error, err error)) {
	var last time.Time
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wake:
		}
		for {
			timer.Reset(b.opts.Window - time.Since(last))
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			batch := b.takeBatch(b.opts.MaxBatch)
			if len(batch) == 0 {
				break
			}
			last = time.Now()
			errs, err := b.write(ctx, batch)
			b.opts.Metrics.batchSeconds.Observe(time.Since(last).Seconds())
			b.opts.Metrics.batchEntries.Observe(float64(len(batch)))
			settled(batch, errs, err)
		}
	}
}

func (b *batcher) write(ctx context.Context, batch []*queuedCommit) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.StoreTimeout)
	defer cancel()
	writes := make([]catalog.OffsetWrite, len(batch))
	for i, q := range batch {
		writes[i] = q.write
	}
	return b.opts.Offsets.CommitOffsets(ctx, writes)
}

// close fails what still waits.
func (b *batcher) close(settled func(batch []*queuedCommit, errs []error, err error)) {
	b.mu.Lock()
	b.closed = true
	n := len(b.order)
	b.mu.Unlock()
	if n > 0 {
		settled(b.takeBatch(n), nil, errClosed)
	}
}
