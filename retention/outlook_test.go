package retention

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

func TestLocalOutlookSaysWhatIsFreedNextAndWhatItWaitsFor(t *testing.T) {
	seg := func(base, next record.Offset) LocalSegment {
		return LocalSegment{Base: base, Next: next, Bytes: 100, MaxTimestamp: now - 1000, LastAppend: now - 1000, Sealed: true}
	}
	active := LocalSegment{Base: 20, Next: 25, Bytes: 50}
	two := []LocalSegment{seg(0, 10), seg(10, 20), active}
	for _, row := range []struct {
		story string
		f     LocalFacts
		p     LocalPolicy
		want  string
	}{
		{"only the active segment", LocalFacts{Segments: []LocalSegment{active}}, LocalPolicy{-1, 1}, "nothing can be freed from disk: there is only the segment that is being written"},
		{"too large", LocalFacts{Segments: two, Durable: 10, Floor: 20}, LocalPolicy{-1, 200}, "[0, 10) is freed from disk next, because 250 bytes are more than local.retention.bytes=200"},
		{"too large, shown a moment ago", LocalFacts{Segments: two, Durable: 0, Floor: 20}, LocalPolicy{-1, 200},
			"[0, 10) is freed from disk next, because 250 bytes are more than local.retention.bytes=200, when the catalog has shown it as tiered for TIDEMARK_FREE_DELAY"},
		{"too old, not uploaded", LocalFacts{Segments: two, NowMs: now}, LocalPolicy{500, -1}, "[0, 10) is freed from disk next, because it is older than local.retention.ms=500, when it has been uploaded"},
		{"not yet", LocalFacts{Segments: two, Durable: 20, Floor: 20, NowMs: now}, LocalPolicy{5000, 300},
			"[0, 10) is freed from disk next; by local.retention.ms=5000 at 2023-11-14T22:13:24Z; by local.retention.bytes=300 when 51 more bytes are on disk"},
		{"no limit", LocalFacts{Segments: two, Durable: 20, Floor: 20, NowMs: now}, LocalPolicy{-1, -1},
			"nothing is freed from disk before it is removed: local.retention.ms and local.retention.bytes set no limit"},
	} {
		t.Run(row.story, func(t *testing.T) { require.Equal(t, row.want, LocalOutlook(row.f, row.p)) })
	}
}
