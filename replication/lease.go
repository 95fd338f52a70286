package replication

import (
	"time"

	"tidemark/catalog"
)

// Watch judges leases by how long they have stood still on the own clock (R13). It is fed every answer
// of the catalog and nothing else; times are readings of one monotonic clock. The zero value is not
// ready: see [NewWatch].
type Watch struct {
	length time.Duration

	any        bool          // the catalog has answered once
	answered   time.Duration // when it last did
	asked      time.Duration // when that answer had been asked for
	quietUntil time.Duration

	brokers    map[catalog.BrokerID]sighting
	controller catalog.Controller
	since      time.Duration // the controller's row has stood still since then
	server     int64         // the database server that answered
}

// sighting is a broker's lease and since when it has been seen unchanged.
type sighting struct {
	lease catalog.BrokerLease
	since time.Duration
}

// NewWatch watches leases of the given length.
func NewWatch(length time.Duration) *Watch {
	return &Watch{length: length, brokers: map[catalog.BrokerID]sighting{}}
}

// Observe takes over what the catalog showed to a question of time asked, answered at answered. After
// a gap in the answers every lease is seen anew, because its holder may have been kept from raising it;
// after a gap of a lease's length, or when another server answers, nobody acts for another one, so that
// whoever is alive has shown it, and whoever has seen more than this server knows has said so (H2, H7, H16).
func (w *Watch) Observe(asked, answered time.Duration, ls catalog.Leases) {
	gap, other := answered-w.answered, ls.Server != w.server
	if w.any && (gap > w.length/2 || other) {
		clear(w.brokers)
		w.controller = catalog.Controller{}
	}
	if w.any && (gap >= w.length || other) {
		w.quietUntil = answered + w.length
	}
	w.server = ls.Server
	w.any, w.asked, w.answered = true, asked, answered
	seen := make(map[catalog.BrokerID]sighting, len(ls.Brokers))
	for _, b := range ls.Brokers {
		s, ok := w.brokers[b.ID]
		if !ok || s.lease != b {
			s = sighting{b, answered}
		}
		seen[b.ID] = s
	}
	w.brokers = seen
	if w.controller != ls.Controller {
		w.controller, w.since = ls.Controller, answered
	}
}

// fresh says whether the last answer is new enough to act on.
func (w *Watch) fresh(now time.Duration) bool { return w.any && now-w.answered <= w.length/2 }

// Quiet says that nobody may be taken out, elected or dropped from an in-sync set: the catalog does not
// answer, or was away for a lease's length and everybody gets one to show that they are alive (H7).
func (w *Watch) Quiet(now time.Duration) bool { return !w.fresh(now) || now < w.quietUntil }

// Dead lists the live brokers whose lease has been seen to stand still for its length, in no order.
func (w *Watch) Dead(now time.Duration) []catalog.BrokerLease {
	if w.Quiet(now) {
		return nil
	}
	var out []catalog.BrokerLease
	for _, s := range w.brokers {
		if s.lease.Live && w.still(s.since) {
			out = append(out, s.lease)
		}
	}
	return out
}

// still: the last answer, asked for a lease's length after since, showed the same.
func (w *Watch) still(since time.Duration) bool { return w.asked-since >= w.length }

// Holder is the lease of a broker as last seen, and whether its id may be taken over: nobody lives
// under it, or its lease has stood still.
func (w *Watch) Holder(id catalog.BrokerID) (lease catalog.BrokerLease, free bool) {
	s, ok := w.brokers[id]
	return s.lease, w.any && (!ok || !s.lease.Live || w.still(s.since))
}

// Controller is the controller's row as last seen, and whether the role may be taken: nobody holds it,
// or the row has stood still, also through the pause of [Watch.Quiet].
func (w *Watch) Controller(now time.Duration) (row catalog.Controller, free bool) {
	if !w.fresh(now) {
		return w.controller, false
	}
	return w.controller, w.controller.Broker == catalog.NoBroker || (w.still(w.since) && now >= w.quietUntil)
}

// Next is when it is worth asking again: at the earliest moment at which a lease can have stood still,
// at most every from now.
func (w *Watch) Next(now, every time.Duration) time.Duration {
	next := now + every
	consider := func(since time.Duration) {
		if due := since + w.length; due > now && due < next {
			next = due
		}
	}
	for _, s := range w.brokers {
		if s.lease.Live {
			consider(s.since)
		}
	}
	if w.controller.Broker != catalog.NoBroker {
		consider(w.since)
	}
	return next
}
