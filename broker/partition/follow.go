package partition

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/replication/fetcher"
)

// following is this broker's part in another's leader epoch; a fetcher.Replica.
type following struct {
	p      *Partition
	leader catalog.BrokerID
	epoch  record.Epoch
	// ready: the log was cut for this epoch, so that what is below hw may be served (KIP-392).
	ready atomic.Bool
	// Only the fetcher's goroutine uses these.
	summaries []record.Summary
	damaged   bool // a batch of the leader failed its checks; said once
}

var _ fetcher.Replica = (*following)(nil)

// Follow ends a leadership, whose waits fail first (R17, H11), and follows the leader that the row names.
func (p *Partition) Follow(row catalog.Partition) {
	p.Unlead()
	if f := p.follows.Load(); f != nil && f.leader == row.Leader && f.epoch == row.LeaderEpoch {
		return
	}
	p.roleMu.Lock()
	p.follows.Store(&following{p: p, leader: row.Leader, epoch: row.LeaderEpoch})
	p.roleMu.Unlock()
	p.moved()
	p.touch()
}

// Unfollow stops following: when it returns nobody changes the log.
func (p *Partition) Unfollow() {
	if p.follows.Load() == nil {
		return
	}
	p.roleMu.Lock()
	p.follows.Store(nil)
	p.roleMu.Unlock()
	p.moved()
}

// hold keeps what is followed from changing until release, or returns ErrStale.
func (f *following) hold() (release func(), err error) {
	f.p.roleMu.RLock()
	if f.p.follows.Load() != f {
		f.p.roleMu.RUnlock()
		return nil, fmt.Errorf("%w: %s-%d, epoch %d", fetcher.ErrStale, f.p.Name, f.p.ID.Partition, f.epoch)
	}
	return f.p.roleMu.RUnlock, nil
}

// Log implements fetcher.Replica. A log without records, or one that ends below start, begins at `tiered`: it copies
// only what is hot.
func (f *following) Log() (fetcher.Log, bool) {
	b := f.p.log.Bounds()
	start, tiered := record.Offset(f.p.start.Load()), record.Offset(f.p.tiered.Load())
	empty := b.End == b.LocalStart
	return fetcher.Log{Start: b.LocalStart, End: b.End, Epochs: f.p.log.Epochs()},
		b.End < start || empty && b.End < max(start, tiered)
}

// Truncate implements fetcher.Replica. Producer state, transactions and epochs go back with the log.
func (f *following) Truncate(to record.Offset) error {
	release, err := f.hold()
	if err != nil {
		return err
	}
	defer release()
	p := f.p
	if end := p.log.Bounds().End; to < end {
		f.reportCut(to, end)
	}
	err = p.log.TruncateTo(to) // at its end too: epochs in which nothing was written go
	if errors.Is(err, hotlog.ErrBelowLocal) {
		return fmt.Errorf("%w: %w", fetcher.ErrRestart, err)
	}
	if err != nil {
		return f.failed(err)
	}
	end := p.log.Bounds().End
	p.hw.Store(min(p.hw.Load(), int64(max(end, record.Offset(p.start.Load())))))
	f.settled()
	return nil
}

// reportCut says what is cut; records below the high watermark go only after an unclean election (E4).
func (f *following) reportCut(to, end record.Offset) {
	hw, say := record.Offset(f.p.hw.Load()), f.p.out.Info
	if to < hw {
		say = f.p.out.Warn
	}
	say("the log is cut to what the new leader has", "end", end, "to", to, "hw", hw, "leader", f.leader, "epoch", f.epoch)
}

// failed judges what the log said: one that has failed for good does not follow any more (H28).
func (f *following) failed(err error) error {
	err = f.p.appendFailed(err)
	if errors.Is(err, hotlog.ErrFailed) {
		return fmt.Errorf("%w: %w", fetcher.ErrStale, err)
	}
	return err
}

// settled: from here on the log is a part of the leader's.
func (f *following) settled() {
	f.p.aligned.Store(int32(f.epoch))
	f.ready.Store(true)
	f.p.moved()
}

// Restart implements fetcher.Replica (H23, D15).
func (f *following) Restart(ctx context.Context) error {
	p := f.p
	row, err := p.env.catalog.Partition(ctx, p.ID)
	if err != nil {
		return err
	}
	epochs, state, err := p.tierState(ctx, row)
	if err != nil {
		return err
	}
	release, err := f.hold()
	if err != nil {
		return err
	}
	defer release()
	floor, b := max(row.Start, row.Tiered), p.log.Bounds()
	f.ready.Store(false)
	p.out.Info("the log begins at the object tier's end", "local_start", b.LocalStart, "end", b.End, "begins_at", floor, "leader", f.leader, "epoch", f.epoch)
	if err := p.log.Reset(floor, epochs, state); err != nil {
		return f.failed(fmt.Errorf("begin the log at %d: %w", floor, err))
	}
	p.env.metrics.resets.Inc()
	p.hw.Store(int64(floor))
	p.observe(row.Bounds)
	p.moved()
	p.touch()
	return nil
}

// Append implements fetcher.Replica. Each batch is judged as at produce and publish (R4), and refused if its epoch
// cannot stand here: the leader may have become a follower while it answered.
func (f *following) Append(batches []byte, hw, start record.Offset) error {
	release, err := f.hold()
	if err != nil {
		return err
	}
	defer release()
	p := f.p
	if raise(&p.start, start) {
		p.moved()
	}
	if len(batches) > 0 {
		if err := f.append(batches); err != nil {
			return err
		}
		p.touch()
	}
	if raise(&p.hw, min(hw, p.log.Bounds().End)) {
		p.waiters.wake()
	}
	return nil
}

func (f *following) append(batches []byte) error {
	p := f.p
	if p.env.pressure.refuseAppend(len(batches)) {
		return fmt.Errorf("%w: above the second mark", hotlog.ErrDiskFull)
	}
	last, _ := p.log.Epochs().Latest()
	epoch := last.Epoch
	f.summaries = f.summaries[:0]
	for rest := batches; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		if err != nil {
			return f.damage(err)
		}
		s, err := record.Judge(batch, record.Rules{AllowEmpty: true})
		if err != nil {
			return f.damage(err)
		}
		if s.Header.LeaderEpoch < epoch || s.Header.LeaderEpoch > f.epoch {
			return fmt.Errorf("%w: a batch of epoch %d at %d, after epoch %d, from the leader of %d",
				fetcher.ErrDiverged, s.Header.LeaderEpoch, s.Header.BaseOffset, epoch, f.epoch)
		}
		epoch = s.Header.LeaderEpoch
		f.summaries = append(f.summaries, s)
		rest = after
	}
	done, err := p.log.Append(hotlog.AppendRequest{
		Batches: batches, Summaries: f.summaries, AppendTime: p.env.wall().UnixMilli(), Follower: true,
	})
	switch {
	case errors.Is(err, hotlog.ErrNotNext):
		return fmt.Errorf("%w: %w", fetcher.ErrDiverged, err)
	case err != nil:
		return f.failed(err)
	}
	f.damaged = false
	p.flushLater()
	if done.Rolled {
		p.sealed()
	}
	return nil
}

// damage keeps bytes that fail their checks from being copied onward.
func (f *following) damage(err error) error {
	f.p.env.metrics.damaged.Inc()
	if !f.damaged {
		f.damaged = true
		f.p.out.Error("the leader's bytes are damaged; nothing of them is copied", "leader", f.leader, "error", err)
	}
	return err
}
