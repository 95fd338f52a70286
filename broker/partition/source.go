package partition

import (
	"context"
	"fmt"

	"tidemark/catalog"
	"tidemark/hotlog"
	"tidemark/record"
	"tidemark/tiering"
)

// maxObject is the most that one object holds, unless a single batch is larger (P12).
const maxObject = 64 << 20

// source is the partition as its uploads see it; a tiering.Source.
type source struct{ p *Partition }

// Leadership implements tiering.Source.
func (s source) Leadership() (catalog.Guard, bool) {
	if l := s.p.role.Load(); l != nil {
		return l.guard, true
	}
	return catalog.Guard{}, false
}

// Sealed implements tiering.Source: the sealed segment that holds from, from there on, if all of it is
// below min(hw, stable) and remote.copy.lag.* lets it go.
func (s source) Sealed(_ context.Context, from record.Offset) (*tiering.Run, error) {
	p := s.p
	segs := p.log.Segments()
	if len(segs) > 0 && from < segs[0].Base {
		return nil, fmt.Errorf("%w: upload at %d, the log begins at %d", ErrHole, from, segs[0].Base)
	}
	hw := record.Offset(p.hw.Load())
	bound := min(hw, p.stable(hw))
	for i, seg := range segs {
		if seg.Next <= from {
			continue
		}
		if !seg.Sealed || seg.Next > bound || p.lags(segs[i:]) {
			return nil, nil
		}
		return s.run(seg, from)
	}
	return nil, nil
}

// lags reports whether remote.copy.lag.ms and .bytes both still hold back the first segment of segs.
func (p *Partition) lags(segs []hotlog.SegmentInfo) bool {
	cfg := p.cfg.Load()
	lagMs, lagBytes := int64(cfg.RemoteCopyLagMs), cfg.RemoteCopyLagBytes
	if lagMs == 0 || lagBytes == 0 {
		return false
	}
	if lagMs < 0 {
		lagMs = int64(cfg.LocalRetentionMs)
	}
	if lagBytes < 0 {
		lagBytes = cfg.LocalRetentionBytes
	}
	var after int64
	for _, s := range segs[1:] {
		after += s.Bytes
	}
	if lagBytes >= 0 && after >= lagBytes {
		return false
	}
	age := p.env.wall().UnixMilli() - segs[0].LastAppendWall
	return lagMs < 0 || age < lagMs
}

func (s source) run(seg hotlog.SegmentInfo, from record.Offset) (*tiering.Run, error) {
	p := s.p
	sec, err := p.log.Read(from, seg.Next, maxObject, true)
	if err != nil {
		return nil, fmt.Errorf("read [%d, %d) for upload: %w", from, seg.Next, err)
	}
	if sec.Len == 0 {
		sec.Release()
		return nil, fmt.Errorf("%w: no batch in [%d, %d) of a sealed segment", ErrHole, from, seg.Next)
	}
	return &tiering.Run{
		Base: sec.First, Next: sec.Next, Data: sec, Size: sec.Len,
		AppendTime: seg.LastAppendWall, Epochs: p.log.Epochs(),
		Aborted:   p.log.Aborted(sec.First, sec.Next),
		Compacted: p.cfg.Load().CleanupCompact, TopicName: p.Name, Release: sec.Release,
	}, nil
}

// Published implements tiering.Source.
func (s source) Published(b catalog.Bounds) {
	p := s.p
	p.observe(b)
	p.mu.Lock()
	p.expireNow = true
	p.mu.Unlock()
	p.touch()
	p.env.poke()
}

// Hold implements tiering.Source.
func (s source) Hold(base, next record.Offset) (func(), bool) { return s.p.holdRange(base, next) }

// Agrees implements tiering.Source.
func (s source) Agrees(epochs record.EpochHistory, base, next record.Offset) bool {
	b := s.p.log.Bounds()
	return s.p.log.Epochs().EqualOn(epochs, max(base, b.LocalStart), min(next, b.End))
}

// Damaged implements tiering.Source: the local bytes are not what they were; nothing of them was
// published, and hot reads of them rely on the client's own check (§10).
func (s source) Damaged(from record.Offset, err error) {
	p := s.p
	p.mu.Lock()
	first := p.damage == nil
	p.damage = err
	p.mu.Unlock()
	p.env.metrics.damaged.Inc()
	if first {
		p.out.Error("local segment is damaged; its upload waits until it is repaired", "from", from, "error", err)
	}
}

// Damage is what uploads have found wrong with the local log, or nil.
func (p *Partition) Damage() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.damage
}

var _ tiering.Source = source{}
