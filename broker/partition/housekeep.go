package partition

import (
	"errors"
	"math"
	"time"

	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/retention"
)

// never is a due time that does not come.
const never = time.Duration(math.MaxInt64)

// followerLook is how often a follower with sealed segments asks the catalog what of them is tiered.
const followerLook = 2 * time.Second

// isDue reports whether the housekeeping has to look: something has changed, or time has come.
func (p *Partition) isDue(now time.Duration) bool {
	return p.changed.Load() || p.due.Load() <= int64(now)
}

// housekeep rolls what is due and returns whether local segments could be freed if the
// catalog agrees. It sets the next due time.
func (p *Partition) housekeep(now time.Duration) (wantsBounds bool) {
	p.changed.Store(false)
	segs := p.log.Segments()
	next := now + p.rollDue(segs, now)
	p.flushLater() // a log that was opened with unsynced bytes, or a flush.ms that was lowered
	cfg := p.cfg.Load()
	floor := max(p.start.Load(), p.tiered.Load())
	if p.freeTo(segs, record.Offset(floor)) > segs[0].Base {
		wantsBounds = true
		next = min(next, now+time.Second)
	}
	if len(segs) > 1 && p.role.Load() == nil { // nobody tells a follower what has been tiered
		wantsBounds = true
		next = min(next, now+followerLook)
	}
	if cfg.LocalRetentionMs >= 0 && len(segs) > 1 {
		next = min(next, now+time.Minute)
	}
	p.due.Store(int64(next))
	return wantsBounds
}

// rollDue rolls the active segment if it is due and returns the time until it will be.
func (p *Partition) rollDue(segs []hotlog.SegmentInfo, now time.Duration) time.Duration {
	active := segs[len(segs)-1]
	if active.Sealed || active.Next == active.Base {
		return never - now
	}
	reason, wait := p.rollReason(active, now)
	if reason == "" {
		return min(wait, never-now)
	}
	if err := p.log.Roll(reason); err != nil {
		p.out.Warn("roll", "reason", string(reason), "error", err)
		return time.Second
	}
	p.changed.Store(true) // look again: it may be freed now
	p.sealed()
	return never - now
}

// rollReason says why the active segment ends now, or "" and in how long it will.
func (p *Partition) rollReason(active hotlog.SegmentInfo, now time.Duration) (hotlog.RollReason, time.Duration) {
	cfg := p.cfg.Load()
	age := now - active.FirstAppendMono
	wait := never
	limit := func(ms int64, why hotlog.RollReason) hotlog.RollReason {
		if ms < 0 || ms > int64(math.MaxInt64/int64(time.Millisecond)) {
			return ""
		}
		d := time.Duration(ms) * time.Millisecond
		if age >= d {
			return why
		}
		wait = min(wait, d-age)
		return ""
	}
	if r := limit(int64(cfg.SegmentMs)-p.jitter(int64(cfg.SegmentJitterMs)), hotlog.RollTime); r != "" {
		return r, 0
	}
	if cfg.RemoteStorageEnable {
		if r := limit(int64(cfg.RemoteCopyMaxDelayMs), hotlog.RollCopy); r != "" {
			return r, 0
		}
		if p.env.pressure.rollEarly() {
			return hotlog.RollPressure, 0
		}
	}
	if active.Next <= record.Offset(p.start.Load()) {
		return hotlog.RollExpired, 0
	}
	if cfg.CleanupDelete && cfg.RetentionMs >= 0 {
		piece := retention.Piece{MaxTimestamp: active.MaxTimestamp, AppendTime: active.LastAppendWall}
		left := retention.ExpiresIn(piece, int64(cfg.RetentionMs), p.env.wall().UnixMilli())
		if left <= 0 {
			return hotlog.RollExpired, 0
		}
		wait = min(wait, time.Duration(min(left, int64(time.Hour/time.Millisecond)))*time.Millisecond)
	}
	return "", wait
}

// jitter is a fixed part of segment.jitter.ms for this partition, so that many do not roll at once.
func (p *Partition) jitter(maxMs int64) int64 {
	if maxMs <= 0 {
		return 0
	}
	h := uint64(p.ID.Partition)*0x9e3779b97f4a7c15 ^ uint64(p.ID.Topic[0])<<8 ^ uint64(p.ID.Topic[15])
	return int64(h % uint64(maxMs))
}

// freeTo is the offset below which local segments would be freed if everything below durable may go.
func (p *Partition) freeTo(segs []hotlog.SegmentInfo, durable record.Offset) record.Offset {
	local, policy := p.localView(segs)
	start := record.Offset(p.start.Load())
	keep := retention.FreeLocal(local, policy, durable, p.env.wall().UnixMilli())
	for _, s := range segs { // what lies below start goes whatever the local retention says
		if s.Sealed && s.Next <= min(start, durable) {
			keep = max(keep, s.Next)
		}
	}
	return keep
}

// localView is the local log and local.retention.* as the planner takes them.
func (p *Partition) localView(segs []hotlog.SegmentInfo) ([]retention.LocalSegment, retention.LocalPolicy) {
	cfg := p.cfg.Load()
	policy := retention.LocalPolicy{RetentionMs: int64(cfg.LocalRetentionMs), RetentionBytes: cfg.LocalRetentionBytes}
	if !cfg.CleanupDelete && cfg.LocalRetentionMs == cfg.RetentionMs {
		// retention.ms means nothing on a topic that is compacted only, and local retention
		// that follows it means nothing either.
		policy.RetentionMs = -1
	}
	local := make([]retention.LocalSegment, len(segs))
	for i, s := range segs {
		local[i] = retention.LocalSegment{
			Base: s.Base, Next: s.Next, Bytes: s.Bytes,
			MaxTimestamp: s.MaxTimestamp, LastAppend: s.LastAppendWall, Sealed: s.Sealed,
		}
	}
	return local, policy
}

// localOutlook says which local segment is freed next and why.
func (p *Partition) localOutlook(segs []hotlog.SegmentInfo) string {
	if !p.cfg.Load().RemoteStorageEnable {
		return ""
	}
	local, policy := p.localView(segs)
	floor := record.Offset(max(p.start.Load(), p.tiered.Load()))
	durable, _ := p.durable(floor)
	return retention.LocalOutlook(retention.LocalFacts{Segments: local, Durable: durable, Floor: floor, NowMs: p.env.wall().UnixMilli()}, policy)
}

// free frees local segments now that the catalog has just shown b (R5).
func (p *Partition) free(b catalog.Bounds) {
	p.observe(b)
	durable, wait := p.durable(max(b.Start, b.Tiered))
	if wait >= 0 {
		p.due.Store(min(p.due.Load(), int64(p.env.mono()+wait)))
	}
	below := p.freeTo(p.log.Segments(), durable)
	n, err := p.log.Free(below)
	if err != nil && !errors.Is(err, hotlog.ErrClosed) { // closed: the topic has been deleted meanwhile, or the broker stops
		p.out.Warn("free local segments", "below", below, "error", err)
	}
	if n > 0 {
		p.env.metrics.freed.Add(float64(n))
	}
}
