package catalog

import (
	"fmt"

	"tidemark/record"
)

// CheckGuard judges a guard by the row that it names, which the caller has locked (R10). leader and
// epoch are the row's; ErrFenced if they are not the guard's.
func CheckGuard(g Guard, leader Guard) error {
	if g.Broker == NoBroker || g != leader {
		return fmt.Errorf("%w: broker %d, incarnation %d, epoch %d, but the row says broker %d, incarnation %d, epoch %d",
			ErrFenced, g.Broker, g.Incarnation, g.Epoch, leader.Broker, leader.Incarnation, leader.Epoch)
	}
	return nil
}

// CheckPublish judges a publish by the bounds of its locked row and returns the bounds after it (R4).
// A segment continues the tier if it begins at tiered; where the tier is empty (start = tiered) it
// may begin below start, because start may lie inside a batch (H15).
func CheckPublish(b Bounds, s Segment) (Bounds, error) {
	if s.Base < 0 || s.Next <= s.Base || s.Bytes <= 0 {
		return b, fmt.Errorf("%w: a segment of [%d, %d) and %d bytes", ErrInvalid, s.Base, s.Next, s.Bytes)
	}
	into := s.Base <= b.Start && b.Start == b.Tiered && b.Tiered < s.Next
	if s.Base != b.Tiered && !into {
		return b, fmt.Errorf("%w: [%d, %d) where start is %d and tiered %d", ErrNotContiguous, s.Base, s.Next, b.Start, b.Tiered)
	}
	b.Tiered = s.Next
	b.TierBytes += s.Bytes
	return b, nil
}

// CheckSwap judges a swap of the live rows old, in offset order, by the rows new, in offset order: both
// adjacent, both of exactly the same union (R4, A21). It returns by how much tier_bytes changes.
func CheckSwap(old, replacement []Segment) (delta int64, err error) {
	if len(old) == 0 || len(replacement) == 0 {
		return 0, fmt.Errorf("%w: a swap of %d rows by %d", ErrInvalid, len(old), len(replacement))
	}
	for _, rows := range [][]Segment{old, replacement} {
		for i, s := range rows {
			if s.Next <= s.Base || s.Bytes <= 0 {
				return 0, fmt.Errorf("%w: a segment of [%d, %d) and %d bytes", ErrInvalid, s.Base, s.Next, s.Bytes)
			}
			if i > 0 && rows[i-1].Next != s.Base {
				return 0, fmt.Errorf("%w: [%d, %d) does not follow what ends at %d", ErrNotContiguous, s.Base, s.Next, rows[i-1].Next)
			}
		}
	}
	if old[0].Base != replacement[0].Base || old[len(old)-1].Next != replacement[len(replacement)-1].Next {
		return 0, fmt.Errorf("%w: rows of [%d, %d) cannot be replaced by [%d, %d)", ErrNotContiguous,
			old[0].Base, old[len(old)-1].Next, replacement[0].Base, replacement[len(replacement)-1].Next)
	}
	for _, s := range old {
		delta -= s.Bytes
	}
	for _, s := range replacement {
		delta += s.Bytes
	}
	return delta, nil
}

// CheckSwapLost judges a lost row that comes back in the place of the live rows old, in offset order, and returns the
// bounds after it. It may reach beyond tiered if they end there.
func CheckSwapLost(b Bounds, old []Segment, s Segment) (Bounds, error) {
	within := s
	if n := len(old); n > 0 && old[n-1].Next == b.Tiered {
		within.Next = min(s.Next, b.Tiered)
	}
	for _, o := range old {
		if o.Generation >= s.Generation {
			return b, fmt.Errorf("%w: [%d, %d) of generation %d cannot be replaced by one of generation %d", ErrNotContiguous, o.Base, o.Next, o.Generation, s.Generation)
		}
	}
	delta, err := CheckSwap(old, []Segment{within})
	if err != nil {
		return b, err
	}
	b.TierBytes += delta
	b.Tiered = max(b.Tiered, s.Next)
	return b, nil
}

// RaiseStart moves start up to o and tiered with it; a lower o changes nothing (H15).
func RaiseStart(b Bounds, o record.Offset) Bounds {
	b.Start = max(b.Start, o)
	b.Tiered = max(b.Tiered, b.Start)
	return b
}

// RunningMax is one row of the chain behind max_ts_upto.
type RunningMax struct {
	ID   SegmentID
	Base record.Offset
	Max  int64 // the row's own largest timestamp
	Upto int64 // the largest from start to the row, as stored: right or too large (H25)
}

// ChainMax recomputes Upto of rows, which are in offset order, given the Upto of the row before them.
// It returns those whose value changes, and settled if the chain behind the last examined row needs
// no more work: at or after firm, the last place where the chain was broken, a row was right already.
func ChainMax(before int64, rows []RunningMax, firm record.Offset) (changed []RunningMax, settled bool) {
	upto := before
	for _, r := range rows {
		upto = max(upto, r.Max)
		if upto == r.Upto {
			if r.Base >= firm {
				return changed, true
			}
			continue
		}
		r.Upto = upto
		changed = append(changed, r)
	}
	return changed, false
}
