package retention

import "tidemark/record"

// Piece is a removable unit over both tiers, oldest first: a tiered segment's row, or a local segment
// above tiered.
type Piece struct {
	Base, Next   record.Offset
	Bytes        int64
	MaxTimestamp int64
	AppendTime   int64
}

// TotalPolicy is retention.ms and retention.bytes; -1: no limit.
type TotalPolicy struct {
	RetentionMs    int64
	RetentionBytes int64
}

// Facts are what a plan is made of.
type Facts struct {
	Start record.Offset
	// Bound is the smaller of high watermark and stable offset: start never passes it.
	Bound record.Offset
	// Size is the partition's bytes over both tiers: tier_bytes plus local bytes above tiered (H30).
	Size int64
	// Oldest lists pieces from start on; a prefix suffices, the plan says if it wanted more.
	Oldest []Piece
	NowMs  int64
}

// Plan is where start moves to.
type Plan struct {
	Start record.Offset
	// ByTime and BySize count the pieces that each limit removes.
	ByTime, BySize int
	// More says that every given piece went and the next ones should be looked at too.
	More bool
}

// Expire plans retention: the oldest pieces go while they are older than retention.ms, or while the
// size without them is still at least retention.bytes, as Kafka counts it.
func Expire(f Facts, p TotalPolicy) Plan {
	plan := Plan{Start: f.Start}
	size := f.Size
	for _, s := range f.Oldest {
		if s.Next > f.Bound {
			return plan
		}
		switch {
		case expired(age(s.MaxTimestamp, s.AppendTime), p.RetentionMs, f.NowMs):
			plan.ByTime++
		case p.RetentionBytes >= 0 && size-s.Bytes >= p.RetentionBytes:
			plan.BySize++
		default:
			return plan
		}
		size -= s.Bytes
		plan.Start = max(plan.Start, s.Next)
	}
	plan.More = len(f.Oldest) > 0
	return plan
}
