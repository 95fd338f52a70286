package retention

import (
	"fmt"
	"math"
	"time"

	"tidemark/record"
)

// LocalFacts are what is said about the local log.
type LocalFacts struct {
	Segments []LocalSegment // oldest first
	// Durable is the bound below which segments may be freed now (R5); Floor is what the catalog shows as
	// tiered or deleted, which becomes the bound once it has been shown for free.delay.
	Durable, Floor record.Offset
	NowMs          int64
}

// LocalOutlook says in a sentence which local segment is freed next and why, or what it waits for.
func LocalOutlook(f LocalFacts, p LocalPolicy) string {
	if len(f.Segments) == 0 || !f.Segments[0].Sealed {
		return "nothing can be freed from disk: there is only the segment that is being written"
	}
	next, total := f.Segments[0], int64(0)
	for _, s := range f.Segments {
		total += s.Bytes
	}
	text := fmt.Sprintf("[%d, %d) is freed from disk next", next.Base, next.Next)
	due := ""
	switch {
	case p.RetentionBytes >= 0 && total > p.RetentionBytes:
		due = fmt.Sprintf(", because %d bytes are more than local.retention.bytes=%d", total, p.RetentionBytes)
	case expired(age(next.MaxTimestamp, next.LastAppend), p.RetentionMs, f.NowMs):
		due = fmt.Sprintf(", because it is older than local.retention.ms=%d", p.RetentionMs)
	case p.RetentionMs < 0 && p.RetentionBytes < 0:
		return "nothing is freed from disk before it is removed: local.retention.ms and local.retention.bytes set no limit"
	}
	switch {
	case next.Next > f.Floor:
		return text + due + ", when it has been uploaded"
	case due != "" && next.Next > f.Durable:
		return text + due + ", when the catalog has shown it as tiered for TIDEMARK_FREE_DELAY"
	case due != "":
		return text + due
	}
	piece := Piece{MaxTimestamp: next.MaxTimestamp, AppendTime: next.LastAppend}
	if left := ExpiresIn(piece, p.RetentionMs, f.NowMs); left != math.MaxInt64 {
		at := time.UnixMilli(f.NowMs).Add(time.Duration(min(left, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond)
		text += fmt.Sprintf("; by local.retention.ms=%d at %s", p.RetentionMs, at.UTC().Format(time.RFC3339))
	}
	if p.RetentionBytes >= 0 {
		text += fmt.Sprintf("; by local.retention.bytes=%d when %d more bytes are on disk", p.RetentionBytes, p.RetentionBytes-total+1)
	}
	return text
}
