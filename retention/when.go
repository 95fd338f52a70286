package retention

import (
	"fmt"
	"math"
	"time"
)

// ExpiresIn is how many ms are left until a piece is older than retention.ms; 0 or less: it is. An
// infinite retention never comes.
func ExpiresIn(s Piece, retentionMs, nowMs int64) int64 {
	if retentionMs < 0 {
		return math.MaxInt64
	}
	since := age(s.MaxTimestamp, s.AppendTime)
	if expired(since, retentionMs, nowMs) {
		return 0
	}
	if retentionMs > math.MaxInt64-max(since, 0)-1 {
		return math.MaxInt64
	}
	return max(1, since+retentionMs+1-nowMs)
}

// NextLook is how many ms from now the first piece that stays will expire; at most an hour, since
// pieces may come that are not among the facts.
func NextLook(f Facts, p TotalPolicy) int64 {
	const hour = 60 * 60 * 1000
	next := int64(hour)
	for _, s := range f.Oldest {
		if left := ExpiresIn(s, p.RetentionMs, f.NowMs); left > 0 {
			return min(next, left)
		}
	}
	return next
}

// Outlook says in a sentence what retention will remove next and why, given what is left after a plan.
func Outlook(f Facts, p TotalPolicy) string {
	if p.RetentionMs < 0 && p.RetentionBytes < 0 {
		return "nothing is ever removed: retention.ms and retention.bytes are -1, or the topic is compacted only"
	}
	var next Piece
	for _, s := range f.Oldest {
		if s.Next > f.Start {
			next = s
			break
		}
	}
	if next.Next == 0 {
		return "nothing can be removed yet: no sealed segment is above the log start"
	}
	text := fmt.Sprintf("[%d, %d) goes next", max(next.Base, f.Start), next.Next)
	if left := ExpiresIn(next, p.RetentionMs, f.NowMs); left != math.MaxInt64 {
		at := time.UnixMilli(f.NowMs).Add(time.Duration(min(left, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
		text += fmt.Sprintf("; by retention.ms=%d at %s", p.RetentionMs, at.UTC().Format(time.RFC3339))
	}
	if p.RetentionBytes >= 0 {
		text += fmt.Sprintf("; by retention.bytes=%d when %d more bytes are in the partition", p.RetentionBytes, max(0, p.RetentionBytes+next.Bytes-f.Size))
	}
	return text
}
