package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/retention"
)

// A look at retention reads the oldest firstLook rows; where all of them go, up to moreLooks others with
// nextLook rows follow at once, so that a large partition whose limit was lowered shrinks in good time and
// no partition holds up the others.
const (
	firstLook = 200
	nextLook  = 1000
	moreLooks = 10
)

// wantsExpiry reports whether retention may have something to remove, from memory alone.
func (p *Partition) wantsExpiry(wallMs int64) bool {
	if p.role.Load() == nil {
		return false
	}
	cfg := p.cfg.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moreStart > 0 {
		return true
	}
	if !cfg.CleanupDelete || cfg.RetentionMs < 0 && cfg.RetentionBytes < 0 {
		return false
	}
	return p.expireNow || cfg.RetentionMs >= 0 && wallMs >= p.expiry
}

// expire moves start past what retention has expired, in bounded steps. nowMs is the smaller of the
// broker's and the database's clock (R13).
func (p *Partition) expire(ctx context.Context, nowMs int64) error {
	lead, err := p.leading()
	if err != nil {
		return nil
	}
	p.mu.Lock()
	left := p.moreStart
	p.expireNow = false
	p.mu.Unlock()
	if left > 0 {
		return p.moveStart(ctx, lead, left)
	}
	if p.nothingToExpire() {
		p.mu.Lock()
		p.expiry = nowMs + int64(emptyLook/time.Millisecond)
		p.mu.Unlock()
		return nil
	}
	more, err := p.expireStep(ctx, lead, nowMs, firstLook)
	for i := 0; i < moreLooks && more && err == nil; i++ {
		more, err = p.expireStep(ctx, lead, nowMs, nextLook)
	}
	return err
}

// emptyLook is when a partition is looked at again that had nothing to expire.
const emptyLook = time.Minute

// nothingToExpire reports, from memory alone, that no piece of the partition is whole: nothing is tiered or sealed. Whoever
// seals or publishes one asks for a look.
func (p *Partition) nothingToExpire() bool {
	p.mu.Lock()
	tiered := p.tierBytes
	p.mu.Unlock()
	return tiered == 0 && len(p.log.Segments()) == 1
}

// expireStep is one look; more says that all that it saw has gone.
func (p *Partition) expireStep(ctx context.Context, lead *leadership, nowMs int64, rows int) (more bool, err error) {
	facts, tiered, next, err := p.facts(ctx, nowMs, rows)
	if err != nil {
		return false, err
	}
	plan := retention.Expire(facts, p.policy())
	p.mu.Lock()
	p.expiry, p.oldest = next, oldestObject(facts.Oldest, plan.Start, tiered)
	p.expireNow = p.expireNow || plan.More
	p.mu.Unlock()
	if plan.Start <= facts.Start {
		return false, nil
	}
	if err := p.moveStart(ctx, lead, plan.Start); err != nil {
		return false, err
	}
	p.out.Info("retention moved the log start", "from", facts.Start, "to", plan.Start, "by_time", plan.ByTime, "by_size", plan.BySize)
	return plan.More, nil
}

// policy is retention.ms and retention.bytes of a topic that deletes.
func (p *Partition) policy() retention.TotalPolicy {
	cfg := p.cfg.Load()
	if !cfg.CleanupDelete {
		return retention.TotalPolicy{RetentionMs: -1, RetentionBytes: -1}
	}
	return retention.TotalPolicy{RetentionMs: int64(cfg.RetentionMs), RetentionBytes: cfg.RetentionBytes}
}

// facts gathers what a plan needs: up to limit of the oldest rows of the tier, which ends at tiered, then the sealed
// local segments above it. next is the wall time at which the first piece that stays will expire.
func (p *Partition) facts(ctx context.Context, nowMs int64, limit int) (f retention.Facts, tiered record.Offset, next int64, err error) {
	row, err := p.env.catalog.Partition(ctx, p.ID)
	if err != nil {
		return f, 0, 0, err
	}
	p.observe(row.Bounds)
	hw := record.Offset(p.hw.Load())
	f = retention.Facts{Start: row.Start, Bound: min(hw, p.stable(hw)), Size: row.TierBytes, NowMs: nowMs}
	full := false
	if row.TierBytes > 0 {
		rows, err := p.env.catalog.ListSegments(ctx, p.ID, row.Start, limit)
		if err != nil {
			return f, 0, 0, err
		}
		full = len(rows) == limit
		for _, r := range rows {
			f.Oldest = append(f.Oldest, retention.Piece{Base: r.Base, Next: r.Next, Bytes: r.Bytes, MaxTimestamp: r.MaxTimestamp, AppendTime: r.AppendTime})
		}
	}
	size, sealed := p.localAbove(row.Tiered)
	f.Size += size
	if !full {
		f.Oldest = append(f.Oldest, sealed...)
	}
	return f, row.Tiered, nowMs + retention.NextLook(f, p.policy()), nil
}

// localAbove is what the local log has at or above the tier's end: its bytes, and its sealed segments as pieces. Of a
// segment that the end lies in only the rest counts: the tier has the beginning, and would count it twice (D1).
func (p *Partition) localAbove(tiered record.Offset) (size int64, sealed []retention.Piece) {
	for _, s := range p.log.Segments() {
		if s.Next <= tiered || s.Next == s.Base {
			continue
		}
		bytes := p.bytesFrom(s, tiered)
		size += bytes
		if s.Sealed {
			sealed = append(sealed, retention.Piece{Base: max(s.Base, tiered), Next: s.Next, Bytes: bytes, MaxTimestamp: s.MaxTimestamp, AppendTime: s.LastAppendWall})
		}
	}
	return size, sealed
}

// bytesFrom is how many bytes of a local segment lie at or above an offset, from the begin of its batch on. A segment that
// cannot be searched, because it was freed meanwhile or is damaged, counts for nothing: what is not known removes nothing.
func (p *Partition) bytesFrom(s hotlog.SegmentInfo, from record.Offset) int64 {
	if from <= s.Base {
		return s.Bytes
	}
	rest, err := p.log.Range(from, s.Next)
	if err != nil {
		return 0
	}
	defer rest.Release()
	return rest.Len
}

// oldestObject is the first piece of the tier that stays when start has moved; the zero Piece if none is known.
func oldestObject(pieces []retention.Piece, start, tiered record.Offset) retention.Piece {
	for _, x := range pieces {
		if x.Next > start && x.Next <= tiered {
			return x
		}
	}
	return retention.Piece{}
}

// outlook says what retention does next, from memory: the objects as the last look at the catalog saw them, start and
// local log as they are now.
func (p *Partition) outlook() string {
	f := retention.Facts{Start: record.Offset(p.start.Load()), NowMs: p.env.wall().UnixMilli()}
	p.mu.Lock()
	oldest, tierBytes := p.oldest, p.tierBytes
	p.mu.Unlock()
	size, sealed := p.localAbove(record.Offset(p.tiered.Load()))
	f.Size = tierBytes + size
	policy := p.policy()
	switch {
	case oldest.Next > f.Start:
		f.Oldest = append(f.Oldest, oldest)
	case tierBytes > 0 && (policy.RetentionMs >= 0 || policy.RetentionBytes >= 0):
		return fmt.Sprintf("the objects from %d on have not been looked at yet", f.Start)
	}
	f.Oldest = append(f.Oldest, sealed...)
	return retention.Outlook(f, policy)
}

// moveStart raises start in the catalog and here; rows that are left become garbage at the next round.
func (p *Partition) moveStart(ctx context.Context, lead *leadership, to record.Offset) error {
	b, more, err := p.env.catalog.MoveStart(ctx, p.ID, lead.guard, to)
	if errors.Is(err, catalog.ErrFenced) {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if err != nil {
		return fmt.Errorf("move the log start to %d: %w", to, err)
	}
	p.observe(b)
	p.mu.Lock()
	p.moreStart = 0
	if more {
		p.moreStart = to
	}
	p.mu.Unlock()
	p.env.tier.Forget(p.ID, b.Start)
	p.env.tier.Wake(p.ID) // its upload may have to jump to start (A2)
	p.log.TrimEpochs(b.Start)
	p.touch()
	p.env.poke()
	return nil
}

// DeleteRecords moves start to an offset; -1 stands for the high watermark. It returns the new start.
// Errors: ErrNotLeader, ErrOutOfRange, ErrDeleteNotAllowed, or the catalog's.
func (p *Partition) DeleteRecords(ctx context.Context, to record.Offset) (record.Offset, error) {
	lead, err := p.leading()
	if err != nil {
		return -1, err
	}
	if !p.cfg.Load().CleanupDelete {
		return -1, ErrDeleteNotAllowed
	}
	hw := record.Offset(p.hw.Load())
	if to == -1 {
		to = hw
	}
	if to < 0 || to > hw {
		return -1, fmt.Errorf("%w: delete below %d, the high watermark is %d", ErrOutOfRange, to, hw)
	}
	if start := record.Offset(p.start.Load()); to <= start {
		return start, nil
	}
	if err := p.moveStart(ctx, lead, to); err != nil {
		return -1, err
	}
	p.mu.Lock()
	p.expireNow = true // size and oldest object are others
	p.mu.Unlock()
	return record.Offset(p.start.Load()), nil
}

// clockSkew is how far broker and database time may differ before retention stands still (R13).
const clockSkew = time.Minute
