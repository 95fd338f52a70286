package replication

import (
	"math"
	"slices"
	"time"

	"tidemark/catalog"
	"tidemark/record"
)

// Unbounded is the Reach of a leader that waits for nobody.
const Unbounded = record.Offset(math.MaxInt64)

// Followers is what one leader epoch knows of its partition's replicas: the in-sync set as the catalog has
// it, a change of it that may have happened, and how far each follower has come. It is a value machine:
// no clock, no I/O; the caller gives the time (monotonic) and keeps it from concurrent use.
//
// While a change is pending, whatever is known of its outcome, the high watermark counts the union of both
// sets and min.insync.replicas their intersection (H7).
type Followers struct {
	self     catalog.Member
	lagMax   time.Duration
	began    record.Offset // where the leader's epoch begins
	minISR   int           // the setting
	replicas []catalog.BrokerID
	isr      []catalog.Member
	eligible bool // the catalog's row has an eligible set
	version  catalog.Version
	pending  *pending
	progress []progress
}

// pending is a change that was asked for.
type pending struct {
	isr []catalog.Member
	// unsure: an attempt got no answer, so it may still be executed on the version that it was made for.
	// until is when it cannot any more.
	unsure bool
	until  time.Duration
}

// progress is how far a follower is, by its own fetches.
type progress struct {
	member    catalog.Member
	end       record.Offset // of its last fetch: it has all below
	caughtUp  time.Duration // when it last had all of the log
	leaderEnd record.Offset // the log's end at its last fetch
	at        time.Duration // of its last fetch
	fresh     bool          // it has fetched since the catalog last decided on the set
	with      *Presence     // shows that it still has all that it had; nil: its own fetches only
}

// FollowersOptions begin a leadership.
type FollowersOptions struct {
	Self catalog.Member
	Row  catalog.Partition // as the catalog shows it now
	// Began is the log's end when the epoch began.
	Began  record.Offset
	MinISR int           // min.insync.replicas as it is set
	LagMax time.Duration // replica.lag.time.max.ms
	Now    time.Duration
}

// NewFollowers begins a leadership: nobody has fetched yet, and everybody has LagMax from now to do so.
func NewFollowers(o FollowersOptions) *Followers {
	f := &Followers{
		self: o.Self, lagMax: o.LagMax, began: o.Began, minISR: o.MinISR,
		replicas: o.Row.Replicas, isr: o.Row.ISR, eligible: len(o.Row.ELR) > 0, version: o.Row.Version,
	}
	for _, m := range o.Row.ISR {
		if m.Broker != o.Self.Broker {
			f.progress = append(f.progress, progress{member: m, end: record.NoOffset, caughtUp: o.Now, leaderEnd: record.NoOffset})
		}
	}
	return f
}

// IsReplica reports whether the broker is one of the partition's followers.
func (f *Followers) IsReplica(b catalog.BrokerID) bool {
	return b != f.self.Broker && slices.Contains(f.replicas, b)
}

// Fetched notes that a follower asks for from while the log ends at end: it has all below from. m carries the
// incarnation of the fetch, which the caller knows to be the registered one. An offset lower than before is
// believed: a disk may have lost what it had (E9).
func (f *Followers) Fetched(m catalog.Member, from, end record.Offset, now time.Duration) {
	p := f.of(m.Broker)
	if p == nil {
		f.progress = append(f.progress, progress{member: m, leaderEnd: record.NoOffset})
		p = &f.progress[len(f.progress)-1]
	}
	if p.member != m { // another life: nothing of the old one counts (KIP-903)
		*p = progress{member: m, leaderEnd: record.NoOffset}
	}
	p.settle()
	switch {
	case from >= end:
		p.caughtUp = now
	case p.leaderEnd >= 0 && from >= p.leaderEnd:
		p.caughtUp = max(p.caughtUp, p.at)
	}
	p.end, p.leaderEnd, p.at, p.fresh = from, end, now, true
}

func (f *Followers) of(b catalog.BrokerID) *progress {
	for i := range f.progress {
		if f.progress[i].member.Broker == b {
			return &f.progress[i]
		}
	}
	return nil
}

// EndOf is how far a follower has come, NoOffset if it has not fetched in this life.
func (f *Followers) EndOf(b catalog.BrokerID) record.Offset {
	if p := f.of(b); p != nil {
		return p.end
	}
	return record.NoOffset
}

// Reach is what every other member that counts has: the high watermark may go to the smaller of it and the
// leader's own end. NoOffset while it may not move at all, Unbounded if nobody else counts. While the row has an
// eligible set it does not move: who is in it is elected as one that has everything, by a min.insync.replicas that this
// leader may not have read yet (H6).
func (f *Followers) Reach() record.Offset {
	if f.eligible || f.InSync() < f.MinISR() {
		return record.NoOffset
	}
	reach := f.reachOf(f.isr, Unbounded)
	if f.pending != nil {
		reach = f.reachOf(f.pending.isr, reach)
	}
	return reach
}

func (f *Followers) reachOf(ms []catalog.Member, reach record.Offset) record.Offset {
	for _, m := range ms {
		if m == f.self {
			continue
		}
		p := f.of(m.Broker)
		if p == nil || p.member != m {
			return record.NoOffset
		}
		reach = min(reach, p.end)
	}
	return reach
}

// InSync is how many members the in-sync set has for certain: of a set whose change is pending, those in both.
func (f *Followers) InSync() int {
	if f.pending == nil {
		return len(f.isr)
	}
	n := 0
	for _, m := range f.isr {
		if slices.Contains(f.pending.isr, m) {
			n++
		}
	}
	return n
}

// MinISR is min.insync.replicas as far as it can be met.
func (f *Followers) MinISR() int { return catalog.EffectiveMinISR(f.minISR, len(f.replicas)) }

// SetMinISR takes over a changed setting.
func (f *Followers) SetMinISR(n int) { f.minISR = n }

// ISR is the in-sync set as the catalog last showed it.
func (f *Followers) ISR() []catalog.Member { return f.isr }

// Replicas is how many replicas the partition has.
func (f *Followers) Replicas() int { return len(f.replicas) }

// Pending reports whether a change is on its way or its outcome unknown.
func (f *Followers) Pending() bool { return f.pending != nil }

// Change is an in-sync set that a leader asks for in place of the one of IfVersion.
type Change struct {
	IfVersion catalog.Version
	ISR       []catalog.Member
}

// Joins reports whether a follower outside the set has come so far that it may be let in: to the high
// watermark and to the start of the leader's epoch (model, finding 4), with a fetch after the last decision on
// the set, so that one who was taken out because it is gone does not come back by what it had.
func (f *Followers) Joins(b catalog.BrokerID, hw record.Offset) bool {
	p := f.of(b)
	return p != nil && p.fresh && f.IsReplica(b) && !slices.Contains(f.isr, p.member) && p.end >= hw && p.end >= f.began
}

// Plan decides whether to ask for another set, given the high watermark and the log's end. What it returns is
// pending until Answered or a newer row says otherwise; while something is pending the same is asked again.
// mayShrink is false while nobody may be taken out (H7). The leader itself always stays.
func (f *Followers) Plan(hw, end record.Offset, now time.Duration, mayShrink bool) (Change, bool) {
	if f.pending != nil {
		return Change{IfVersion: f.version, ISR: f.pending.isr}, true
	}
	next := f.next(hw, end, now, mayShrink)
	if next == nil {
		return Change{}, false
	}
	f.pending = &pending{isr: next}
	return Change{IfVersion: f.version, ISR: next}, true
}

// Alone reports that nothing but a new row can make Plan ask for something: the leader is the only replica, and no change
// is pending.
func (f *Followers) Alone() bool { return f.pending == nil && len(f.replicas) <= 1 }

// Wants reports whether Plan would ask for something.
func (f *Followers) Wants(hw, end record.Offset, now time.Duration, mayShrink bool) bool {
	return !f.Alone() && (f.pending != nil || f.next(hw, end, now, mayShrink) != nil)
}

// next is the set that there should be, nil if it is the one that there is.
func (f *Followers) next(hw, end record.Offset, now time.Duration, mayShrink bool) []catalog.Member {
	next := slices.DeleteFunc(slices.Clone(f.isr), func(m catalog.Member) bool {
		return m != f.self && mayShrink && f.lags(m, end, now)
	})
	for _, p := range f.progress {
		if !f.Joins(p.member.Broker, hw) {
			continue
		}
		next = slices.DeleteFunc(next, func(m catalog.Member) bool { return m.Broker == p.member.Broker })
		next = append(next, p.member)
	}
	if !slices.Contains(next, f.self) || slices.Equal(next, f.isr) && !f.outgrown() {
		return nil
	}
	return next
}

// outgrown: the set is large enough, and still there is an eligible set, left by another min.insync.replicas than the
// one in force. Asking for the same set again empties it.
func (f *Followers) outgrown() bool { return f.eligible && len(f.isr) >= f.MinISR() }

// lags reports whether a member has not had the whole log for longer than it may.
func (f *Followers) lags(m catalog.Member, end record.Offset, now time.Duration) bool {
	p := f.of(m.Broker)
	if p == nil {
		return false // a member that the row brought: Row has begun its time
	}
	return (p.end < end || p.member != m) && now-p.hadAll() > f.lagMax
}

// Moves reports whether Row would take anything over.
func (f *Followers) Moves(row catalog.Partition) bool {
	return row.Version > f.version || row.Version == f.version && !slices.Equal(row.Replicas, f.replicas)
}

// Row takes over the row as it was read. A newer version decides what was pending: an attempt that was made
// for an older one cannot happen any more. It reports whether anything changed.
func (f *Followers) Row(row catalog.Partition, now time.Duration) bool {
	if !f.Moves(row) {
		return false
	}
	f.replicas = row.Replicas
	if row.Version == f.version {
		return true
	}
	for _, m := range row.ISR {
		if p := f.of(m.Broker); m != f.self && p == nil {
			f.progress = append(f.progress, progress{member: m, end: record.NoOffset, caughtUp: now, leaderEnd: record.NoOffset})
		}
	}
	f.progress = slices.DeleteFunc(f.progress, func(p progress) bool { return !slices.Contains(row.Replicas, p.member.Broker) })
	f.isr, f.eligible, f.version = row.ISR, len(row.ELR) > 0, row.Version
	f.decided()
	return true
}

// decided ends what was pending.
func (f *Followers) decided() {
	f.pending = nil
	for i := range f.progress {
		f.progress[i].fresh = false
	}
}

// Answered takes the catalog's answer to the change that is pending: the row as it stands now. An unchanged
// row means that the change was refused, unless an earlier attempt is still out: then the union stays
// until that cannot be executed any more.
func (f *Followers) Answered(row catalog.Partition, now time.Duration) {
	f.Row(row, now)
	if f.pending == nil || row.Version != f.version {
		return
	}
	if !f.pending.unsure || now >= f.pending.until {
		f.decided()
	}
}

// Unknown says that the attempt on the pending change got no answer; it may be executed until the given time.
func (f *Followers) Unknown(until time.Duration) {
	if f.pending != nil {
		f.pending.unsure, f.pending.until = true, until
	}
}
