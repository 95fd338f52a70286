package compaction

import "tidemark/catalog"

// row is a live row as a pass sees it.
type row struct {
	catalog.Segment
	// due: it has been clean for delete.retention.ms, so what waits in it may go.
	due bool
	// aside: the pass neither reads nor changes it.
	aside bool
	// bereft: the pass takes records of a transaction whose marker lies here, so the marker's wait begins.
	bereft bool
	// after says what is to be noted when the pass is through.
	after note
}

// note is what a pass writes into a row at its end.
type note int

const (
	leave    note = iota // the row says what is true
	waiting              // clean from now on; something in it waits
	spotless             // clean, and nothing waits
)

func (r row) dirty() bool { return r.CleanSince == 0 }

// noted is what the pass notes of a row in the end.
func (r row) noted() note {
	if r.bereft {
		return waiting
	}
	return r.after
}

// verdict is what a pass makes of a row before it has read its data.
type verdict struct {
	need  bool  // read it
	bytes int64 // about how much data will be left
	// must: rewrite it if anything goes, however little.
	must bool
	// after is the note if it is not read.
	after note
}

// judge decides by a row's digests. keys is how many there are, aborted whether aborted transactions reach
// into it. Records that no digest names are older ones of keys in the same object, aborted ones and markers:
// it cannot be told which without reading them.
func (p Policy) judge(r row, m *marks, keys int64, aborted bool) verdict {
	removed := int64(len(m.removed()))
	unnamed := max(r.Records-keys, 0)
	lost := removed
	if r.dirty() {
		lost += unnamed
	}
	waits := m.tombstones > 0 || unnamed > 0
	v := verdict{bytes: r.DataBytes}
	// What a tombstone hides goes, and aborted records, so that tombstone and marker can follow.
	v.must = m.forced || r.dirty() && (aborted || m.tombstones > 0 && unnamed > 0)
	v.need = v.must || p.loses(lost, r.Records) || r.due && waits
	if r.Records > 0 {
		v.bytes = max(int64(float64(r.DataBytes)*float64(r.Records-min(lost, r.Records))/float64(r.Records)), 1)
	}
	switch {
	case r.dirty() && waits:
		v.after = waiting
	case r.dirty(), r.due && !waits:
		v.after = spotless
	}
	return v
}

// worthIt reports whether an object of which t was read is put anew.
func (p Policy) worthIt(r row, v verdict, t *tally) bool {
	if t.lost == 0 && t.batches == t.written {
		return false
	}
	return v.must || p.loses(t.lost, t.records) || r.due && t.tombstonesLost+t.markersLost > 0
}

// since is the CleanSince of a row that replaces others, and the note for the end of the pass.
func since(rows []row, t *tally) (int64, note) {
	waits := t.tombstones+t.markersWaiting > 0
	if !waits {
		return catalog.Spotless, leave
	}
	var clean int64
	for _, r := range rows {
		if r.dirty() || r.due || t.renews {
			return 0, waiting
		}
		if r.CleanSince != catalog.Spotless {
			clean = max(clean, r.CleanSince)
		}
	}
	if clean == 0 {
		return 0, waiting
	}
	return clean, leave
}
