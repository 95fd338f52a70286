package retention

import "tidemark/record"

// LocalSegment is one segment of the local log, oldest first in a plan.
type LocalSegment struct {
	Base, Next record.Offset
	Bytes      int64
	// MaxTimestamp is the largest record timestamp, ms, or record.NoTimestamp.
	MaxTimestamp int64
	// LastAppend is the broker's wall clock at its last append, ms; 0 if unknown.
	LastAppend int64
	Sealed     bool
}

// LocalPolicy is what local.retention.* (with -2 already replaced by retention.*) says. -1: no limit.
type LocalPolicy struct {
	RetentionMs    int64
	RetentionBytes int64
}

// FreeLocal returns the offset below which local segments are to be freed: sealed segments, oldest
// first, wholly below durable (R5's bound), while the local bytes, the active segment's included,
// exceed the setting or the segment is older than it. It returns the base of the first segment to
// keep, or the first base if nothing is to go.
func FreeLocal(segs []LocalSegment, p LocalPolicy, durable record.Offset, nowMs int64) record.Offset {
	if len(segs) == 0 {
		return 0
	}
	var total int64
	for _, s := range segs {
		total += s.Bytes
	}
	keep := segs[0].Base
	for _, s := range segs {
		if !s.Sealed || s.Next > durable {
			break
		}
		over := p.RetentionBytes >= 0 && total > p.RetentionBytes
		if !over && !expired(age(s.MaxTimestamp, s.LastAppend), p.RetentionMs, nowMs) {
			break
		}
		total -= s.Bytes
		keep = s.Next
	}
	return keep
}

// age is the time from which a segment's age counts: the record timestamps, but never later than the
// broker's own append time, so that a timestamp in the future keeps nothing for ever (D8).
func age(maxTimestamp, appendTime int64) int64 {
	if maxTimestamp == record.NoTimestamp || (appendTime > 0 && appendTime < maxTimestamp) {
		return appendTime
	}
	return maxTimestamp
}

// expired reports whether t is older than retention at now; retention may be anything up to 2⁶³-1.
func expired(t, retentionMs, nowMs int64) bool {
	return retentionMs >= 0 && nowMs-retentionMs > t && nowMs > retentionMs
}
