package catalogtest

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"tidemark/catalog"
	"tidemark/record"
)

var modelStories = []story{
	{"a random walk of one partition agrees with a twin in memory", func(w *World) {
		if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
			_ = flag.Set("rapid.checks", "20") // each check is some hundred transactions
		}
		w.Register(1)
		rapid.Check(w.T.(*testing.T), func(t *rapid.T) {
			v := *w
			v.T = ignoringCleanup{w.T, t}
			m := &twin{t: t, w: &v, rows: map[record.Offset]catalog.Segment{}}
			m.p = v.Led(v.Topic(1, 1), 0)
			t.Repeat(map[string]func(*rapid.T){
				"announce": m.announce, "publish": m.publish, "give up": m.giveUp, "move start": m.moveStart,
				"swap": m.swap, "elect": m.elect, "delete the topic": m.delete, "": m.check,
			})
			m.compare()
		})
	}},
}

// ignoringCleanup lets a rapid check fail through rapid, so that it can shrink.
type ignoringCleanup struct {
	testing.TB
	t *rapid.T
}

func (i ignoringCleanup) Helper()                      {}
func (i ignoringCleanup) Errorf(f string, args ...any) { i.t.Errorf(f, args...) }
func (i ignoringCleanup) FailNow()                     { i.t.FailNow() }

// twin is a partition as the rules say it must be.
type twin struct {
	t       *rapid.T
	w       *World
	p       *Partition
	old     []catalog.Guard // of leaders before
	bounds  catalog.Bounds
	rows    map[record.Offset]catalog.Segment // live, by base
	open    []catalog.Segment                 // with an intent
	garbage []string
	deleted bool
	steps   int
}

func (m *twin) expect(got error, want ...error) bool {
	for _, e := range want {
		if (e == nil && got == nil) || (e != nil && errors.Is(got, e)) {
			return true
		}
	}
	m.t.Fatalf("got %v, want one of %v", got, want)
	return false
}

// fence draws a guard and says which error it brings, nil if it is the present one.
func (m *twin) fence() (catalog.Guard, error) {
	if len(m.old) > 0 && rapid.IntRange(0, 4).Draw(m.t, "old leader") == 0 {
		return rapid.SampledFrom(m.old).Draw(m.t, "guard"), catalog.ErrFenced
	}
	return m.p.Guard, nil
}

// sorted is the live rows in offset order.
func (m *twin) sorted() (out []catalog.Segment) {
	for o := m.first(); ; {
		r, ok := m.rows[o]
		if !ok {
			return out
		}
		out = append(out, r)
		o = r.Next
	}
}

func (m *twin) first() record.Offset {
	first := m.bounds.Tiered
	for o := range m.rows {
		first = min(first, o)
	}
	return first
}

func (m *twin) announce(t *rapid.T) {
	base := max(0, m.bounds.Tiered+record.Offset(rapid.SampledFrom([]int{0, 0, 0, 0, -3, 2}).Draw(t, "from tiered")))
	s := m.p.Segment(base, base+record.Offset(rapid.IntRange(1, 10).Draw(t, "offsets")))
	s.MaxTimestamp = rapid.Int64Range(0, 50).Draw(t, "max ts")
	s.MinTimestamp = s.MaxTimestamp
	g, fenced := m.fence()
	in := m.p.Intent(s)
	in.Guard = g
	err := m.w.S.PutIntent(m.w.Ctx, in)
	switch {
	case m.deleted:
		m.expect(err, catalog.ErrUnknownTopic)
	case fenced != nil:
		m.expect(err, fenced)
	case m.expect(err, nil):
		m.open = append(m.open, s)
	}
}

func (m *twin) take(t *rapid.T) (catalog.Segment, int) {
	if len(m.open) == 0 {
		t.Skip("nothing is announced")
	}
	i := rapid.IntRange(0, len(m.open)-1).Draw(t, "attempt")
	return m.open[i], i
}

func (m *twin) close(i int) { m.open = append(m.open[:i:i], m.open[i+1:]...) }

func (m *twin) publish(t *rapid.T) {
	s, i := m.take(t)
	g, fenced := m.fence()
	b, err := m.w.S.Publish(m.w.Ctx, g, s)
	fits := s.Base == m.bounds.Tiered || (s.Base <= m.bounds.Start && m.bounds.Start == m.bounds.Tiered && m.bounds.Tiered < s.Next)
	switch {
	case m.deleted:
		m.expect(err, catalog.ErrUnknownTopic)
	case fenced != nil:
		m.expect(err, fenced)
	case !fits:
		m.expect(err, catalog.ErrNotContiguous)
	case m.expect(err, nil):
		m.close(i)
		m.rows[s.Base] = s
		m.bounds.Tiered = s.Next
		m.bounds.TierBytes += s.Bytes
		m.same(b)
		again, err := m.w.S.Publish(m.w.Ctx, g, s)
		m.expect(err, nil)
		m.same(again)
	}
}

func (m *twin) giveUp(t *rapid.T) {
	s, i := m.take(t)
	g, fenced := m.fence()
	err := m.w.S.GiveUp(m.w.Ctx, g, s.Attempt)
	switch {
	case m.deleted && fenced == nil: // purged or not, nobody else can decide it wrongly
		m.expect(err, nil)
		m.close(i)
		m.garbage = append(m.garbage, s.Key)
	case fenced != nil:
		m.expect(err, fenced)
	case m.expect(err, nil):
		m.close(i)
		m.garbage = append(m.garbage, s.Key)
	}
}

func (m *twin) moveStart(t *rapid.T) {
	o := max(0, m.bounds.Start+record.Offset(rapid.IntRange(-5, 15).Draw(t, "from start")))
	g, fenced := m.fence()
	b, more, err := m.w.S.MoveStart(m.w.Ctx, m.p.ID, g, o)
	if fenced != nil {
		m.expect(err, fenced)
		return
	}
	m.expect(err, nil)
	if more {
		t.Fatalf("more than a thousand of %d rows", len(m.rows))
	}
	m.bounds.Start = max(m.bounds.Start, o)
	m.bounds.Tiered = max(m.bounds.Tiered, m.bounds.Start)
	if o >= m.bounds.Start {
		for base, r := range m.rows {
			if r.Next <= o {
				m.remove(base)
			}
		}
	}
	m.same(b)
}

func (m *twin) remove(base record.Offset) {
	r := m.rows[base]
	delete(m.rows, base)
	m.bounds.TierBytes -= r.Bytes
	m.garbage = append(m.garbage, r.Key)
}

func (m *twin) swap(t *rapid.T) {
	rows := m.sorted()
	if len(rows) == 0 || m.deleted {
		t.Skip("nothing to swap")
	}
	from := rapid.IntRange(0, len(rows)-1).Draw(t, "from")
	to := rapid.IntRange(from+1, len(rows)).Draw(t, "to")
	j, err := m.w.S.TakeJob(m.w.Ctx, m.p.ID, "merge", 1, m.w.Inc[1], 0)
	m.expect(err, nil)
	var ids []catalog.SegmentID
	var latest int64
	for _, r := range rows[from:to] {
		row, err := m.w.S.SegmentAt(m.w.Ctx, m.p.ID, r.Base)
		m.expect(err, nil)
		ids = append(ids, row.ID)
		latest = max(latest, r.MaxTimestamp)
	}
	s := m.p.Segment(rows[from].Base, rows[to-1].Next)
	s.Generation = 1
	s.MaxTimestamp = rapid.Int64Range(0, latest).Draw(t, "max ts") // compaction may remove the latest
	s.MinTimestamp = s.MaxTimestamp
	m.expect(m.w.S.PutJobIntent(m.w.Ctx, j, m.p.Intent(s)), nil)
	m.expect(m.w.S.Swap(m.w.Ctx, j, ids, []catalog.Segment{s}), nil)
	m.expect(m.w.S.Swap(m.w.Ctx, j, ids, []catalog.Segment{s}), nil)
	for _, r := range rows[from:to] {
		m.remove(r.Base)
	}
	m.rows[s.Base] = s
	m.bounds.TierBytes += s.Bytes
}

func (m *twin) elect(*rapid.T) {
	if m.deleted {
		return
	}
	m.old = append(m.old, m.p.Guard)
	m.p = m.p.Elect(1, 1)
}

func (m *twin) delete(t *rapid.T) {
	if m.deleted || rapid.IntRange(0, 9).Draw(t, "really") > 0 {
		t.Skip("not now")
	}
	m.expect(m.w.S.DeleteTopic(m.w.Ctx, m.p.ID.Topic), nil)
	m.deleted = true
}

func (m *twin) same(b catalog.Bounds) {
	if b != m.bounds {
		m.t.Fatalf("bounds are %+v, the twin's %+v", b, m.bounds)
	}
}

// check compares now and then, because it costs more than a step.
func (m *twin) check(*rapid.T) {
	if m.steps++; m.steps%8 == 0 {
		m.compare()
	}
}

func (m *twin) compare() {
	want := ""
	for _, r := range m.sorted() {
		if want += fmt.Sprintf("[%d,%d)", r.Base, r.Next); r.Next != m.bounds.Tiered {
			want += " "
		}
	}
	if got := m.p.Ranges(); got != want {
		m.t.Fatalf("rows are %q, the twin's %q", got, want)
	}
	if len(m.sorted()) != len(m.rows) {
		m.t.Fatalf("the twin has a hole: %v", m.rows)
	}
	if got := len(m.p.Attempts()); got != len(m.open) {
		m.t.Fatalf("%d intents, the twin has %d", got, len(m.open))
	}
	for _, key := range m.garbage {
		is, err := m.w.S.GarbageIs(m.w.Ctx, key)
		m.expect(err, nil)
		if !is {
			m.t.Fatalf("%s is no garbage", key)
		}
	}
	if m.deleted {
		return
	}
	m.same(m.p.Row().Bounds)
	for ts := int64(0); ts <= 51; ts += 7 {
		if got, want := m.p.atTime(ts), m.earliest(ts); got != want {
			m.t.Fatalf("timestamp %d is in the row at %d, the twin's at %d", ts, got, want)
		}
	}
}

func (m *twin) earliest(ts int64) int64 {
	for _, r := range m.sorted() {
		if r.MaxTimestamp >= ts {
			return int64(r.Base)
		}
	}
	return -1
}
