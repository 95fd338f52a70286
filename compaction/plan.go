package compaction

import (
	"math"

	"tidemark/catalog"
	"tidemark/record"
)

// Policy is what a topic's settings say. Times are milliseconds, sizes bytes.
type Policy struct {
	// Compact: cleanup.policy contains compact. Otherwise small neighbours are merged and nothing else.
	Compact bool
	// MinDirtyRatio is min.cleanable.dirty.ratio.
	MinDirtyRatio float64
	// MinLagMs, MaxLagMs and DeleteRetentionMs are min/max.compaction.lag.ms and delete.retention.ms.
	MinLagMs, MaxLagMs, DeleteRetentionMs int64
	// RetentionMs is retention.ms of a topic that deletes; -1: no limit.
	RetentionMs int64
	// ObjectBytes bounds the data of a merged object: the smaller of segment.bytes and 64 MiB.
	ObjectBytes int64
}

// Never is a time that does not come.
const Never int64 = math.MaxInt64

// Plan says what a pass is to do.
type Plan struct {
	// Rows is how many of the rows, from the first one on, the pass covers; 0: there is nothing to do.
	Rows int
	// Why names the rule that asks for the pass.
	Why string
	// Again is the database time, ms, at which rows that do not change ask for a pass; Never if they
	// do not. It counts only if Rows is 0.
	Again int64
}

// Reasons of a pass.
const (
	WhyRatio   = "dirty ratio"
	WhyMaxLag  = "max.compaction.lag.ms"
	WhyDeletes = "delete.retention.ms of new rows" // their tombstones wait for the row to become clean
	WhyDue     = "tombstones or markers are due"
)

// PlanPass decides by rows, which are all of a partition's in offset order, and now, the database's time.
// A pass covers the rows up to the first dirty one that min.compaction.lag.ms holds back.
func PlanPass(rows []catalog.Segment, p Policy, now int64) Plan {
	plan := Plan{Again: Never}
	var clean, dirty int64
	reason := func(why string, at int64) {
		if at <= now && plan.Why == "" {
			plan.Why = why
		}
		plan.Again = min(plan.Again, at)
	}
	n := 0
	for ; n < len(rows); n++ {
		r := rows[n]
		if r.CleanSince > 0 {
			clean += r.Bytes
			reason(WhyDue, dueAt(r, p))
			continue
		}
		if ripe := after(youngest(r), p.MinLagMs); ripe > now {
			plan.Again = min(plan.Again, ripe)
			break
		}
		dirty += r.Bytes
		reason(WhyMaxLag, after(oldest(r), p.MaxLagMs))
		reason(WhyDeletes, after(r.AppendTime, p.DeleteRetentionMs))
	}
	if dirty > 0 && float64(dirty) > p.MinDirtyRatio*float64(clean+dirty) {
		plan.Why = WhyRatio
	}
	if plan.Why != "" {
		plan.Rows = n
	}
	return plan
}

// dueAt is when what waits in a clean row may go.
func dueAt(r catalog.Segment, p Policy) int64 {
	if r.CleanSince == 0 || r.CleanSince == catalog.Spotless {
		return Never
	}
	return after(r.CleanSince, p.DeleteRetentionMs)
}

// after adds without overflow: settings may be 2⁶³-1.
func after(t, ms int64) int64 {
	if ms > Never-max(t, 0) {
		return Never
	}
	return t + ms
}

// youngest is the time of a row's youngest record; its append time where the records claim to come from
// the future or have no time (D8).
func youngest(r catalog.Segment) int64 {
	if r.MaxTimestamp == record.NoTimestamp || r.AppendTime > 0 && r.AppendTime < r.MaxTimestamp {
		return r.AppendTime
	}
	return r.MaxTimestamp
}

func oldest(r catalog.Segment) int64 {
	if r.MinTimestamp == record.NoTimestamp || r.AppendTime > 0 && r.AppendTime < r.MinTimestamp {
		return r.AppendTime
	}
	return r.MinTimestamp
}

// leastLoss is the share of an object's records that must go before it is rewritten, unless tombstones
// or markers ask for it.
const leastLoss = 0.1

// loses reports whether lost of an object's records are enough to rewrite it.
func (p Policy) loses(lost, records int64) bool {
	return lost > 0 && float64(lost) >= min(leastLoss, p.MinDirtyRatio)*float64(records)
}
