package compaction

import (
	"tidemark/catalog"
	"tidemark/record"
)

const (
	// maxSpan is the most offsets that one object covers (C7).
	maxSpan = 1<<31 - 1
	// leastJoin is how many small neighbours are worth a new object when nothing else asks for one.
	leastJoin = 8
	// joinShare is the part of a time limit by which joined rows may differ (H34).
	joinShare = 10
)

// piece is a row as joining sees it: what it will be once it is rewritten.
type piece struct {
	row   catalog.Segment
	bytes int64 // of data that will be left
	need  bool  // it is rewritten whatever the neighbours do
}

// run is a range of pieces, [from, to), that becomes one object.
type run struct{ from, to int }

// joinRuns divides pieces, adjacent and in offset order, into the runs that are rewritten. A run of several
// fits into one object, is not made mostly of one piece that could stay as it is (so a record is copied a
// logarithmic number of times), and coarsens no time limit by more than a tenth.
func joinRuns(pieces []piece, p Policy) []run {
	var runs []run
	for i := 0; i < len(pieces); {
		end := i + 1
		for end < len(pieces) && p.fits(pieces[i:end+1]) {
			end++
		}
		for end-i > 1 && !worth(pieces[i:end]) {
			end--
		}
		if end-i > 1 || pieces[i].need {
			runs = append(runs, run{i, end})
		}
		i = end
	}
	return runs
}

// fits reports whether the last of the pieces may lie in one object with those before it.
func (p Policy) fits(pieces []piece) bool {
	last := pieces[len(pieces)-1].row
	var bytes int64
	first, youngestOf := pieces[0].row, int64(0)
	oldestOf := grain(first)
	for _, x := range pieces {
		bytes += x.bytes
		oldestOf, youngestOf = min(oldestOf, grain(x.row)), max(youngestOf, youngest(x.row))
	}
	if bytes > p.ObjectBytes || last.Next-first.Base > maxSpan {
		return false
	}
	if p.RetentionMs >= 0 && youngestOf-oldestOf > p.RetentionMs/joinShare {
		return false
	}
	return p.sameWait(pieces)
}

// grain is the time at which the oldest part of a row would expire if it were by itself: a joined row's
// parts are as old as its oldest record.
func grain(r catalog.Segment) int64 {
	if r.Generation == 0 {
		return youngest(r)
	}
	return oldest(r)
}

// sameWait keeps rows in which tombstones wait from being joined with others that would make them wait
// again.
func (p Policy) sameWait(pieces []piece) bool {
	var least, most int64
	waits := 0
	for _, x := range pieces {
		if since := x.row.CleanSince; since > 0 && since != catalog.Spotless {
			if waits++; waits == 1 {
				least, most = since, since
			}
			least, most = min(least, since), max(most, since)
		}
	}
	return waits == 0 || waits == len(pieces) && most-least <= p.DeleteRetentionMs/joinShare
}

// worth reports whether joining pieces is worth what it copies.
func worth(pieces []piece) bool {
	var all, idle int64
	needed := false
	for _, x := range pieces {
		all += x.bytes
		if x.need {
			needed = true
		} else {
			idle = max(idle, x.bytes)
		}
	}
	return (needed || len(pieces) >= leastJoin) && idle <= all/2
}

// PlanMerge decides which neighbours of a topic that only deletes become one object. rows are a part of
// the partition's, in offset order. next is where rows begin that may yet be joined with later ones, for
// the next look.
func PlanMerge(rows []catalog.Segment, p Policy) (groups [][]catalog.Segment, next record.Offset) {
	pieces := make([]piece, len(rows))
	for i, r := range rows {
		pieces[i] = piece{row: r, bytes: r.DataBytes}
	}
	for _, r := range joinRuns(pieces, p) {
		groups = append(groups, rows[r.from:r.to])
	}
	if len(rows) == 0 {
		return nil, 0
	}
	next = rows[len(rows)-1].Next
	for i := len(rows) - 1; i >= 0 && p.fits(pieces[i:]); i-- {
		next = rows[i].Base
	}
	return groups, next
}
