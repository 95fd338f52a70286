package handler

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/broker/wire"
	"tidemark/catalog"
)

// Fetch, key 1, versions 4–18: long polls (KIP-74 size limits, min_bytes, max_wait), incremental sessions
// (KIP-227, fetch_session.go), topic ids from 13 (KIP-516). A fetch is a replica's only if its ReplicaState (v15)
// carries the registered incarnation of that broker; every other one is a consumer's, whatever it says (H29).
//
// A replica reads up to the log's end, from the leader's disk only; its fetch offset proves what it has, and it is
// answered as soon as there are records, or soon after the high watermark has moved. A consumer that names its rack
// (v11) is sent to an in-sync follower there, and a follower answers it up to its own high watermark (KIP-392).
//
// Hot records leave as ranges of local files; cold ones come from the object tier's cache. A fetch never
// waits for a download when hot data is due, and waits at most max_wait for one otherwise; the download
// goes on without it and the next fetch finds it (H36, B16). The first partition that has data gives at
// least one whole batch, whatever the limits; no other one does (B18).
func beginFetch(h *Handlers, ctx context.Context, c *wire.Conn, req *wire.Request) wire.Reply {
	r := req.Body.(*kmsg.FetchRequest)
	f := newFetch(h, c, r)
	s, code := h.sessions.open(r, f.replica)
	switch {
	case code != nil:
		return refuseFetch(r, code)
	case s == nil:
		f.list(r)
	case !s.tryTurn():
		return h.later(func() wire.Reply {
			if !s.awaitTurn(ctx) {
				return refuseFetch(r, kerr.RequestTimedOut)
			}
			if code := f.enter(s, r); code != nil {
				return refuseFetch(r, code)
			}
			f.gather()
			f.await(ctx)
			return wire.RespondBody(f.body())
		})
	default:
		if code := f.enter(s, r); code != nil {
			return refuseFetch(r, code)
		}
	}
	f.gather()
	if f.due() || !f.mayWait() {
		return wire.RespondBody(f.body())
	}
	return h.later(func() wire.Reply {
		f.await(ctx)
		return wire.RespondBody(f.body())
	})
}

func refuseFetch(r *kmsg.FetchRequest, code *kerr.Error) wire.Reply {
	resp := r.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode = code.Code
	return wire.Respond(resp)
}

// fetch is one request on its way.
type fetch struct {
	h         *Handlers
	version   int16
	owner     uint64
	listener  string
	rack      string
	replica   catalog.Member      // zero: a consumer
	lifted    *partition.Arrivals // where a replica's fetch has moved the high watermark
	session   *session            // whose turn it has; nil: none
	committed bool
	maxBytes  int
	minBytes  int
	maxWait   time.Duration
	came      time.Duration // before it was known what has moved
	entries   []*fetchEntry // what is looked at: all, or in a session what may have moved
	moves     *moves        // tells what has moved meanwhile
	watching  bool          // it waits: what is looked at is watched too
	reserved  int           // partitions that it waits for at the broker's expense
	throttle  time.Duration // the pause that the client is asked for

	total  int // bytes
	ready  int // bytes that count towards min_bytes
	failed int // partitions with an error
	cold   int // partitions being downloaded
	sent   int // partitions for which a consumer is sent to another replica
	news   int // partitions of which a replica has not been told where the high watermark is
}

func newFetch(h *Handlers, c *wire.Conn, r *kmsg.FetchRequest) *fetch {
	f := &fetch{
		h: h, version: r.Version, owner: uint64(c.ID()), listener: c.Listener(), replica: h.replicaOf(r), committed: r.IsolationLevel == 1,
		maxBytes: min(int(r.MaxBytes), int(h.Config.Network.FetchMaxBytes)),
		maxWait:  time.Duration(max(r.MaxWaitMillis, 0)) * time.Millisecond,
	}
	f.minBytes = min(int(r.MinBytes), max(f.maxBytes, 1)) // as much as fits is enough
	if r.Version >= 11 {
		f.rack = r.Rack
	}
	if f.replica != (catalog.Member{}) {
		f.lifted = partition.NewArrivals(0)
	}
	return f
}

// list takes the partitions of a fetch without session.
func (f *fetch) list(r *kmsg.FetchRequest) {
	f.moves = newMoves()
	for _, t := range r.Topics {
		for i := range t.Partitions {
			e := &fetchEntry{key: keyOf(r.Version, t.Topic, t.TopicID, t.Partitions[i].Partition), moves: f.moves}
			e.ask(&t.Partitions[i])
			f.entries = append(f.entries, e)
		}
	}
}

// enter begins a fetch of a session, whose turn the caller has; an error gives the turn back.
func (f *fetch) enter(s *session, r *kmsg.FetchRequest) *kerr.Error {
	if code := f.h.sessions.advance(s, r, f.replica); code != nil {
		s.endTurn()
		return code
	}
	f.session, f.moves, f.came = s, s.moves, f.h.Partitions.Now()
	f.entries = s.begin(f.kind())
	return nil
}

// kind is what makes two fetches of a session see the same partition differently.
func (f *fetch) kind() fetchKind {
	k := fetchKind{version: f.version, committed: f.committed, rack: f.rack, listener: f.listener}
	if f.rack != "" {
		k.image = f.h.Metadata.Image() // who is near
	}
	return k
}

// gather looks at all entries, in their order, up to the size limits.
func (f *fetch) gather() {
	f.prove(f.entries)
	for _, e := range f.entries {
		f.look(e)
	}
	if f.session != nil && f.session.presence != nil {
		f.session.presence.Came(f.came)
	}
}

// prove takes over what a replica's fetch proves of the partitions, before anything is read of them, and wakes whoever
// waited for it once.
func (f *fetch) prove(es []*fetchEntry) {
	if f.replica == (catalog.Member{}) {
		return
	}
	defer f.lifted.Announce()
	for _, e := range es {
		e.prove(f)
	}
}

// look reads what there is of one partition. It may be called again; cold data that has arrived is kept.
func (f *fetch) look(e *fetchEntry) {
	f.add(e, -1)
	e.collect(f, max(min(e.maxBytes, f.maxBytes-f.total), 0), f.total == 0)
	f.add(e, 1)
}

// add counts what an entry has into the sums, or with -1 out of them.
func (f *fetch) add(e *fetchEntry, sign int) {
	f.total += sign * e.got.Bytes
	f.ready += sign * e.ready()
	if e.code != 0 {
		f.failed += sign
	}
	if e.got.Cold != nil {
		f.cold += sign
	}
	if e.near != catalog.NoBroker {
		f.sent += sign
	}
	if f.replica != (catalog.Member{}) && f.session != nil && e.looked && e.code == 0 && int64(e.got.HW) != e.hw {
		f.news += sign
	}
}

// isNear reports whether a broker is in the consumer's rack and can be reached by it.
func (f *fetch) isNear(id catalog.BrokerID) bool {
	b, ok := f.h.Metadata.Image().Broker(id)
	return ok && b.Live && b.Rack == f.rack &&
		slices.ContainsFunc(b.Listeners, func(l catalog.Listener) bool { return l.Name == f.listener })
}

// replicaOf is the broker whose fetch this is; zero for a consumer.
func (h *Handlers) replicaOf(r *kmsg.FetchRequest) catalog.Member {
	if r.Version < 15 || r.ReplicaState.ID < 0 {
		return catalog.Member{}
	}
	m := catalog.Member{Broker: catalog.BrokerID(r.ReplicaState.ID), Incarnation: catalog.Incarnation(r.ReplicaState.Epoch)}
	if b, ok := h.Metadata.Image().Broker(m.Broker); !ok || !b.Live || b.Incarnation != m.Incarnation || m.Incarnation == 0 {
		return catalog.Member{}
	}
	return m
}

// due reports whether the fetch is answered now.
func (f *fetch) due() bool {
	return f.failed > 0 || f.sent > 0 || f.ready >= f.minBytes && (f.total > 0 || f.minBytes <= 0) || f.maxWait == 0 || f.session == nil && len(f.entries) == 0 ||
		f.session != nil && len(f.session.parts) == 0
}

// mayWait reserves what a fetch without session holds while it waits. One for which there is no room is answered with
// what there is, and its client asked to pause as long as it wanted to wait (R20).
func (f *fetch) mayWait() bool {
	if f.session != nil {
		return true
	}
	if f.h.sessions.reserve(len(f.entries)) {
		f.reserved = len(f.entries)
		return true
	}
	f.throttle = f.maxWait
	return false
}

// newsDelay is how long a replica may wait for records that take the high watermark along.
const newsDelay = 5 * time.Millisecond

// await waits until the fetch is due or its time is over.
func (f *fetch) await(ctx context.Context) {
	if f.due() {
		return
	}
	f.h.metrics.fetchesWaiting.Inc()
	defer f.h.metrics.fetchesWaiting.Dec()
	f.watching = true
	for _, e := range f.entries {
		if !e.idle {
			f.look(e) // once more, now that it is watched
		}
	}
	if f.session == nil {
		defer f.unwatch()
	}
	colds := newColdWaits(f.moves.waiter)
	defer colds.stop()
	timer := time.NewTimer(f.maxWait)
	defer timer.Stop()
	var newsDue <-chan time.Time
	for !f.due() {
		if f.news > 0 && newsDue == nil {
			t := time.NewTimer(newsDelay)
			defer t.Stop()
			newsDue = t.C
		}
		if f.cold > 0 {
			for _, e := range f.entries {
				colds.add(e.got.Cold)
			}
		}
		select {
		case <-f.moves.waiter.C():
		case <-timer.C:
			return
		case <-newsDue:
			return
		case <-ctx.Done():
			return
		}
		f.lookAgain()
	}
}

// lookAgain looks at what has moved and what was downloaded.
func (f *fetch) lookAgain() {
	before := len(f.entries)
	moved := f.moves.take()
	for _, e := range moved {
		if !e.gone && !e.listed {
			e.begin()
			f.entries = append(f.entries, e)
		}
	}
	f.prove(moved)
	for _, e := range moved {
		if !e.gone {
			f.look(e)
		}
	}
	if f.cold == 0 {
		return
	}
	for _, e := range f.entries[:before] {
		if e.got.Cold != nil {
			f.look(e)
		}
	}
}

// unwatch ends the watching of a fetch without session.
func (f *fetch) unwatch() {
	for _, e := range f.entries {
		e.unwatch()
	}
}

// keyOf names a partition as the request's version does.
func keyOf(version int16, topic string, id [16]byte, part int32) fetchKey {
	if version >= 13 {
		return fetchKey{id: catalog.TopicID(id), part: part}
	}
	return fetchKey{topic: topic, part: part}
}
