package partition

import (
	"context"
	"errors"
	"fmt"

	"tidemark/record"
	"tidemark/tiering"
)

// TimePoint is a record found by time.
type TimePoint struct {
	Offset    record.Offset
	Timestamp int64
	Epoch     record.Epoch
}

// notFound is Kafka's answer for "no such record".
var notFound = TimePoint{Offset: -1, Timestamp: record.NoTimestamp, Epoch: record.NoEpoch}

// View is what ListOffsets' special timestamps ask for, under the leadership of client's epoch.
type View struct {
	Offsets
	// Visible is hw, or stable for read_committed.
	Visible record.Offset
	p       *Partition
	began   record.Offset // of the leader's epoch
}

// EndKnown returns ErrOffsetNotAvailable until a new leader's high watermark has reached the start of its epoch: what
// is visible would go back for readers otherwise (KIP-207, H24).
func (v View) EndKnown() error {
	if v.HW < v.began {
		return fmt.Errorf("%w: the high watermark is %d, the leader's epoch begins at %d", ErrOffsetNotAvailable, v.HW, v.began)
	}
	return nil
}

// View checks leadership and returns the bounds that a reader may see.
func (p *Partition) View(client record.Epoch, committed bool) (View, error) {
	lead, err := p.leading()
	if err != nil {
		return View{}, err
	}
	if err := lead.checkEpoch(client); err != nil {
		return View{}, err
	}
	v := View{Offsets: p.Offsets(), p: p, began: lead.began}
	v.Visible = v.HW
	if committed {
		v.Visible = v.Stable
	}
	return v, nil
}

// EpochAt is the leader epoch that wrote offset o.
func (v View) EpochAt(o record.Offset) record.Epoch { return v.p.log.Epochs().EpochAt(o) }

// LatestTiered answers -5: the last offset of the object tier, or -1 when it is empty (H40).
func (v View) LatestTiered() TimePoint {
	v.p.mu.Lock()
	empty := v.p.tierBytes == 0
	v.p.mu.Unlock()
	if empty || v.Tiered <= v.Start {
		return notFound
	}
	return TimePoint{Offset: v.Tiered - 1, Timestamp: record.NoTimestamp, Epoch: v.EpochAt(v.Tiered - 1)}
}

// PendingUpload answers -6: the first offset that the object tier does not have yet, or -1 where the topic has no tier.
func (v View) PendingUpload() TimePoint {
	if !v.p.cfg.Load().RemoteStorageEnable {
		return notFound
	}
	return TimePoint{Offset: v.Tiered, Timestamp: record.NoTimestamp, Epoch: v.EpochAt(v.Tiered)}
}

// cold is what the tier is asked about: what lies below the local log.
func (v View) cold(local record.Offset) tiering.TimeQuery {
	return tiering.TimeQuery{Partition: v.p.ID, From: v.Start, Bound: min(v.Visible, v.Tiered, local)}
}

// AtTime finds the first record of [start, visible) whose timestamp is at least ts: the tier is asked
// for what the local log does not have, then the log (H25).
func (v View) AtTime(ctx context.Context, ts int64) (TimePoint, error) {
	local := v.p.log.Bounds().LocalStart
	if v.Start < local && v.Start < v.Tiered {
		tp, ok, err := v.p.env.tier.OffsetForTime(ctx, v.cold(local), ts)
		switch {
		case errors.Is(err, tiering.ErrBelowStart), errors.Is(err, tiering.ErrAboveTier):
		case err != nil:
			return notFound, fmt.Errorf("%w: %w", ErrStorage, err)
		case ok:
			return TimePoint{tp.Offset, tp.Timestamp, tp.Epoch}, nil
		}
	}
	tp, ok, err := v.p.log.OffsetForTime(ts, max(v.Start, local), v.Visible)
	if err != nil {
		return notFound, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	if !ok {
		return notFound, nil
	}
	return TimePoint{tp.Offset, tp.Timestamp, tp.Epoch}, nil
}

// MaxTimestamp answers -3: the first record that has the largest timestamp of [start, hw).
func (v View) MaxTimestamp(ctx context.Context) (TimePoint, error) {
	best := notFound
	local := v.p.log.Bounds().LocalStart
	if v.Start < local && v.Start < v.Tiered {
		tp, ok, err := v.p.env.tier.MaxTimestamp(ctx, v.cold(local))
		if err != nil && !errors.Is(err, tiering.ErrBelowStart) && !errors.Is(err, tiering.ErrAboveTier) {
			return notFound, fmt.Errorf("%w: %w", ErrStorage, err)
		}
		if err == nil && ok {
			best = TimePoint{tp.Offset, tp.Timestamp, tp.Epoch}
		}
	}
	tp, ok, err := v.p.log.MaxTimestamp(max(v.Start, local), v.Visible)
	if err != nil {
		return notFound, fmt.Errorf("%w: %w", ErrStorage, err)
	}
	if ok && (best.Offset < 0 || tp.Timestamp > best.Timestamp) {
		best = TimePoint{tp.Offset, tp.Timestamp, tp.Epoch}
	}
	return best, nil
}

// EpochEnd answers OffsetForLeaderEpoch from the history since start, the tier's part included (R11).
func (p *Partition) EpochEnd(client, epoch record.Epoch) (record.Epoch, record.Offset, error) {
	lead, err := p.leading()
	if err != nil {
		return record.NoEpoch, -1, err
	}
	if err := lead.checkEpoch(client); err != nil {
		return record.NoEpoch, -1, err
	}
	e, end := p.log.Epochs().EndOffset(epoch, p.log.Bounds().End)
	return e, end, nil
}
