package retention

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/record"
)

const now = int64(1_700_000_000_000)

// segs makes segments of ten offsets and 100 bytes each, sealed but for the last.
func segs(ages ...int64) []LocalSegment {
	var out []LocalSegment
	for i, a := range ages {
		out = append(out, LocalSegment{
			Base: record.Offset(i * 10), Next: record.Offset(i*10 + 10), Bytes: 100,
			MaxTimestamp: now - a, LastAppend: now, Sealed: i < len(ages)-1,
		})
	}
	return out
}

func TestLocalFreeingStories(t *testing.T) {
	for _, c := range []struct {
		story   string
		segs    []LocalSegment
		policy  LocalPolicy
		durable record.Offset
		want    record.Offset
	}{
		{"nothing there", nil, LocalPolicy{-1, 1}, 100, 0},
		{"no limits keep everything", segs(900, 900, 0), LocalPolicy{-1, -1}, 100, 0},
		{"one byte frees every sealed segment that is durable", segs(0, 0, 0), LocalPolicy{-1, 1}, 100, 20},
		{"nothing that is not durable goes (R5)", segs(0, 0, 0), LocalPolicy{-1, 1}, 19, 10},
		{"the active segment's bytes count", segs(0, 0, 0), LocalPolicy{-1, 200}, 100, 10},
		{"exactly the limit stays", segs(0, 0, 0), LocalPolicy{-1, 300}, 100, 0},
		{"old ones go by time", segs(900, 900, 0), LocalPolicy{500, -1}, 100, 20},
		{"time stops at the first young one", segs(900, 100, 900, 0), LocalPolicy{500, -1}, 100, 10},
		{"the active one never goes", segs(900), LocalPolicy{0, 0}, 100, 0},
	} {
		t.Run(c.story, func(t *testing.T) {
			require.Equal(t, c.want, FreeLocal(c.segs, c.policy, c.durable, now))
		})
	}
}

func piece(base, next record.Offset, bytes, maxTimestamp, appended int64) Piece {
	return Piece{Base: base, Next: next, Bytes: bytes, MaxTimestamp: maxTimestamp, AppendTime: appended}
}

func TestTotalRetentionStories(t *testing.T) {
	old, young := piece(0, 10, 100, now-900, now-900), piece(10, 20, 100, now-100, now-100)
	for _, c := range []struct {
		story  string
		facts  Facts
		policy TotalPolicy
		want   record.Offset
	}{
		{"for ever", Facts{Bound: 100, Size: 200, Oldest: []Piece{old, young}}, TotalPolicy{-1, -1}, 0},
		{"the old one expires", Facts{Bound: 100, Size: 200, Oldest: []Piece{old, young}}, TotalPolicy{500, -1}, 10},
		{"never past hw or stable", Facts{Bound: 9, Size: 200, Oldest: []Piece{old, young}}, TotalPolicy{500, -1}, 0},
		{"size counts what is above too", Facts{Bound: 100, Size: 350, Oldest: []Piece{old, young}}, TotalPolicy{-1, 200}, 10},
		{"size keeps at least the setting", Facts{Bound: 100, Size: 299, Oldest: []Piece{old, young}}, TotalPolicy{-1, 200}, 0},
		{"D1: what is in both tiers counts once", Facts{Bound: 100, Size: 8, Oldest: []Piece{piece(0, 10, 8, now, now)}}, TotalPolicy{-1, 10}, 0},
		{"D8: a timestamp in the far future expires by append time", Facts{Bound: 100, Size: 100,
			Oldest: []Piece{piece(0, 10, 100, now+1e12, now-900)}}, TotalPolicy{500, -1}, 10},
		{"D8: no timestamp expires by append time", Facts{Bound: 100, Size: 100,
			Oldest: []Piece{piece(0, 10, 100, record.NoTimestamp, now-900)}}, TotalPolicy{500, -1}, 10},
		{"D8: timestamp 0 is simply old", Facts{Bound: 100, Size: 100, Oldest: []Piece{piece(0, 10, 100, 0, now)}}, TotalPolicy{500, -1}, 10},
		{"H30: 2^63-1 does not overflow", Facts{Bound: 100, Size: 100, Oldest: []Piece{piece(0, 10, 100, 0, 0)}}, TotalPolicy{math.MaxInt64, -1}, 0},
	} {
		t.Run(c.story, func(t *testing.T) {
			c.facts.NowMs = now
			require.Equal(t, c.want, Expire(c.facts, c.policy).Start)
		})
	}
}

func TestNextLookIsWhenTheFirstPieceThatStaysExpires(t *testing.T) {
	f := Facts{NowMs: now, Oldest: []Piece{piece(0, 10, 1, now-900, now), piece(10, 20, 1, now-100, now)}}
	require.EqualValues(t, 401, NextLook(f, TotalPolicy{500, -1}))
	require.EqualValues(t, 60*60*1000, NextLook(f, TotalPolicy{-1, -1}))
	require.EqualValues(t, 60*60*1000, NextLook(f, TotalPolicy{math.MaxInt64, -1}))
}

// Whatever the facts, a plan goes forward only, stops at the bound, and ends between pieces.
func TestPlansAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "pieces")
		f := Facts{Start: 0, Bound: record.Offset(rapid.Int64Range(0, 100).Draw(t, "bound")), NowMs: now}
		edges := map[record.Offset]bool{0: true}
		for i := range n {
			p := piece(record.Offset(i*10), record.Offset(i*10+10), rapid.Int64Range(0, 50).Draw(t, "bytes"),
				now-rapid.Int64Range(-100, 1000).Draw(t, "age"), now-rapid.Int64Range(0, 1000).Draw(t, "append age"))
			f.Oldest = append(f.Oldest, p)
			f.Size += p.Bytes
			edges[p.Next] = true
		}
		policy := TotalPolicy{rapid.Int64Range(-1, 1000).Draw(t, "ms"), rapid.Int64Range(-1, 300).Draw(t, "limit")}
		got := Expire(f, policy)
		if got.Start < f.Start || got.Start > max(f.Bound, f.Start) || !edges[got.Start] {
			t.Fatalf("start %d of bound %d", got.Start, f.Bound)
		}
		if policy == (TotalPolicy{-1, -1}) && got.Start != 0 {
			t.Fatalf("no limit, but start moved to %d", got.Start)
		}
		var kept int64
		for _, p := range f.Oldest {
			if p.Base >= got.Start {
				kept += p.Bytes
			}
		}
		if policy.RetentionMs < 0 && policy.RetentionBytes >= 0 && kept < min(policy.RetentionBytes, f.Size) {
			t.Fatalf("kept %d bytes, the setting is %d", kept, policy.RetentionBytes)
		}
	})
}

func TestOutlookSaysWhatGoesNextAndWhy(t *testing.T) {
	f := Facts{NowMs: now, Size: 150, Oldest: []Piece{piece(0, 10, 100, now-100, now)}}
	require.Equal(t, "[0, 10) goes next; by retention.ms=500 at 2023-11-14T22:13:20Z; by retention.bytes=200 when 150 more bytes are in the partition",
		Outlook(f, TotalPolicy{500, 200}))
	require.Contains(t, Outlook(f, TotalPolicy{-1, -1}), "nothing is ever removed")
	require.Contains(t, Outlook(Facts{NowMs: now}, TotalPolicy{1, -1}), "no sealed segment")
}
