package compaction

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
)

const now = int64(1_000_000)

// dirty is a row of size bytes whose records are age ms old; clean is one that has been clean for as long.
func dirty(bytes, age int64) catalog.Segment {
	return catalog.Segment{Bytes: bytes, DataBytes: bytes, Records: 100, MinTimestamp: now - age, MaxTimestamp: now - age, AppendTime: now - age}
}

func clean(bytes, age int64) catalog.Segment {
	r := dirty(bytes, age)
	r.CleanSince = now - age
	return r
}

func idleRow(bytes int64) catalog.Segment {
	r := dirty(bytes, 0)
	r.CleanSince = catalog.Spotless
	return r
}

// line lays rows one behind the other, ten offsets each.
func line(rows ...catalog.Segment) []catalog.Segment {
	for i := range rows {
		rows[i].ID = catalog.SegmentID(i + 1)
		rows[i].Base, rows[i].Next = record.Offset(10*i), record.Offset(10*i+10)
	}
	return rows
}

func TestWhenAPassIsDue(t *testing.T) {
	p := Policy{Compact: true, MinDirtyRatio: 0.5, MaxLagMs: Never, DeleteRetentionMs: 1000, RetentionMs: -1, ObjectBytes: 1000}
	lag := p
	lag.MinLagMs = 50
	most := p
	most.MaxLagMs = 70
	for _, row := range []struct {
		story  string
		policy Policy
		rows   []catalog.Segment
		want   Plan
	}{
		{"nothing there", p, nil, Plan{Again: Never}},
		{"all clean, nothing waits: never again (A6)", p, line(idleRow(100), idleRow(100)), Plan{Again: Never}},
		{"half is dirty: not yet", p, line(idleRow(100), dirty(100, 10)), Plan{Again: now + 990}},
		{"more than half is dirty", p, line(idleRow(99), dirty(100, 10)), Plan{Rows: 2, Why: WhyRatio, Again: now + 990}},
		{"what waits is not due", p, line(clean(100, 400)), Plan{Again: now + 600}},
		{"what waits is due, whatever the ratio", p, line(clean(100, 1000), idleRow(100), dirty(1, 0)), Plan{Rows: 3, Why: WhyDue, Again: now}},
		{"new rows may hold tombstones", p, line(idleRow(100), dirty(1, 1000)), Plan{Rows: 2, Why: WhyDeletes, Again: now}},
		{"young rows are left", lag, line(dirty(100, 60), dirty(100, 40), dirty(100, 60)), Plan{Rows: 1, Why: WhyRatio, Again: now + 10}},
		{"only young rows", lag, line(dirty(100, 40)), Plan{Again: now + 10}},
		{"old records are cleaned, whatever the ratio", most, line(idleRow(1000), dirty(1, 70)), Plan{Rows: 2, Why: WhyMaxLag, Again: now}},
		{"a record from the future counts from its append", lag, line(catalog.Segment{Bytes: 1, MaxTimestamp: now + 1e12, MinTimestamp: now + 1e12, AppendTime: now - 60}),
			Plan{Rows: 1, Why: WhyRatio, Again: now + 940}},
	} {
		t.Run(row.story, func(t *testing.T) { require.Equal(t, row.want, PlanPass(row.rows, row.policy, now)) })
	}
}

// picture shows runs: "[0 1 2] [4]".
func picture(runs []run) string {
	var out []string
	for _, r := range runs {
		var in []string
		for i := r.from; i < r.to; i++ {
			in = append(in, fmt.Sprint(i))
		}
		out = append(out, "["+strings.Join(in, " ")+"]")
	}
	return strings.Join(out, " ")
}

func TestWhichNeighboursAreJoined(t *testing.T) {
	p := Policy{RetentionMs: -1, ObjectBytes: 1000, DeleteRetentionMs: 100}
	aged := p
	aged.RetentionMs = 1000
	need := func(bytes int64) piece { return piece{row: dirty(bytes, 0), bytes: bytes, need: true} }
	idle := func(bytes int64) piece { return piece{row: idleRow(bytes), bytes: bytes} }
	old := func(age int64) piece { return piece{row: dirty(10, age), bytes: 10} }
	waits := func(age int64) piece { return piece{row: clean(10, age), bytes: 10, need: true} }
	times := func(n int, p piece) (out []piece) {
		for range n {
			out = append(out, p)
		}
		return out
	}
	for _, row := range []struct {
		story  string
		policy Policy
		pieces []piece
		want   string
	}{
		{"nothing asks for it", p, times(3, idle(10)), ""},
		{"enough small ones do", p, times(8, idle(10)), "[0 1 2 3 4 5 6 7]"},
		{"what is rewritten is joined", p, []piece{need(100), need(100), need(100)}, "[0 1 2]"},
		{"as far as it fits", p, []piece{need(600), need(400), need(1)}, "[0 1] [2]"},
		{"a large idle one is not copied for a small one", p, []piece{idle(900), need(50)}, "[1]"},
		{"nor where it comes last", p, []piece{need(50), idle(900)}, "[0]"},
		{"a small idle one is", p, []piece{need(500), idle(50), need(100)}, "[0 1 2]"},
		{"H34: nothing is joined over more than a tenth of retention.ms", aged, append(times(8, old(500)), times(8, old(390))...), "[0 1 2 3 4 5 6 7] [8 9 10 11 12 13 14 15]"},
		{"what waits does not wait longer for its neighbours", p, []piece{waits(90), need(10), waits(50), waits(45)}, "[0] [1] [2 3]"},
	} {
		t.Run(row.story, func(t *testing.T) {
			rows := make([]catalog.Segment, len(row.pieces))
			for i := range row.pieces {
				rows[i] = row.pieces[i].row
			}
			for i, r := range line(rows...) {
				row.pieces[i].row = r
			}
			require.Equal(t, row.want, picture(joinRuns(row.pieces, row.policy)))
		})
	}
}

func TestC7_ARunCoversNoMoreOffsetsThanAnObjectMay(t *testing.T) {
	a, b := dirty(10, 0), dirty(10, 0)
	a.Next, b.Base, b.Next = 1, 1, 2147483658
	require.Equal(t, "[0] [1]", picture(joinRuns([]piece{{a, 10, true}, {b, 10, true}}, Policy{RetentionMs: -1, ObjectBytes: 1000})))
}

// A merge that begins where the last one ended does, however rows come, few copies of each byte.
func TestMergesCopyEachByteALogarithmicNumberOfTimes(t *testing.T) {
	p := Policy{RetentionMs: -1, ObjectBytes: 1 << 20}
	var rows []catalog.Segment
	var cursor record.Offset
	copied, uploaded := int64(0), int64(0)
	for n := range 4000 {
		r := dirty(100, 0)
		r.Base, r.Next = record.Offset(n), record.Offset(n+1)
		rows = append(rows, r)
		uploaded += r.Bytes
		from := 0
		for from < len(rows) && rows[from].Next <= cursor {
			from++
		}
		groups, next := PlanMerge(rows[from:], p)
		cursor = next
		for _, g := range groups {
			joined := g[0]
			for _, x := range g[1:] {
				joined.Next, joined.Bytes, joined.DataBytes = x.Next, joined.Bytes+x.Bytes, joined.DataBytes+x.DataBytes
			}
			joined.Generation++
			copied += joined.Bytes
			at := 0
			for rows[at].Base != g[0].Base {
				at++
			}
			rows = append(append(append([]catalog.Segment{}, rows[:at]...), joined), rows[at+len(g):]...)
			cursor = min(cursor, joined.Base)
		}
	}
	require.Less(t, len(rows), 30)
	require.Less(t, copied, 12*uploaded)
}

func TestPlansAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Compact: true, MinDirtyRatio: rapid.Float64Range(0, 1).Draw(t, "ratio"), MinLagMs: rapid.Int64Range(0, 100).Draw(t, "min"),
			MaxLagMs: rapid.Int64Range(1, 200).Draw(t, "max"), DeleteRetentionMs: rapid.SampledFrom([]int64{0, 100, Never}).Draw(t, "delete"),
			RetentionMs: rapid.Int64Range(-1, 100).Draw(t, "retention"), ObjectBytes: rapid.Int64Range(1, 500).Draw(t, "object"),
		}
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) catalog.Segment {
			bytes, age := rapid.Int64Range(1, 300).Draw(t, "bytes"), rapid.Int64Range(0, 300).Draw(t, "age")
			return rapid.SampledFrom([]catalog.Segment{dirty(bytes, age), clean(bytes, age), idleRow(bytes)}).Draw(t, "row")
		}), 0, 30).Draw(t, "rows")
		rows = line(rows...)
		plan := PlanPass(rows, p, now)
		if plan.Rows == 0 && plan.Again <= now {
			t.Fatalf("nothing to do, but look again at once: %+v", plan)
		}
		var pieces []piece
		for i, r := range rows {
			if i < plan.Rows && r.CleanSince == 0 && youngest(r) > now-p.MinLagMs {
				t.Fatalf("row %d is too young", i)
			}
			pieces = append(pieces, piece{row: r, bytes: r.Bytes, need: rapid.Bool().Draw(t, "need")})
		}
		end, covered := 0, map[int]bool{}
		for _, r := range joinRuns(pieces, p) {
			var bytes int64
			for i := r.from; i < r.to; i++ {
				bytes += pieces[i].bytes
				covered[i] = true
			}
			if r.from < end || r.to <= r.from || r.to-r.from > 1 && bytes > p.ObjectBytes {
				t.Fatalf("run %+v of %d bytes after %d", r, bytes, end)
			}
			end = r.to
		}
		for i, x := range pieces {
			if x.need && !covered[i] {
				t.Fatalf("piece %d is needed and in no run", i)
			}
		}
	})
}

func TestStreamsFitIntoMemory(t *testing.T) {
	for _, memory := range []int64{1, 64 << 10, 1 << 20, 64 << 20, 1 << 30} {
		for _, n := range []int{1, 2, 10, 1000, 100_000} {
			most, buffer := streamsFor(memory, n)
			require.GreaterOrEqual(t, most, 2)
			if used := int64(min(n, most)) * int64(buffer+streamCost); used > memory/2 && memory >= 64<<10 {
				t.Errorf("%d streams of %d bytes take %d of %d", min(n, most), buffer, used, memory)
			}
		}
	}
}
