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
	"tidemark/record"
)

// Fetch, key 1, versions 4–17: long polls (KIP-74 size limits, min_bytes, max_wait), incremental sessions
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
	replica := h.replicaOf(r)
	s, code := h.sessions.open(r, replica != (catalog.Member{}))
	if code != nil {
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		resp.ErrorCode = code.Code
		return wire.Respond(resp)
	}
	f := newFetch(h, r, s)
	f.owner = uint64(c.ID())
	f.listener = c.Listener()
	f.replica = replica
	f.gather()
	if f.due() {
		return wire.RespondBody(f.body())
	}
	return h.later(func() wire.Reply {
		f.await(ctx)
		return wire.RespondBody(f.body())
	})
}

// fetch is one request on its way.
type fetch struct {
	h         *Handlers
	version   int16
	owner     uint64
	listener  string
	rack      string
	replica   catalog.Member // zero: a consumer
	session   *session
	committed bool
	maxBytes  int
	minBytes  int
	maxWait   time.Duration
	entries   []*fetchEntry

	total  int
	failed bool
	cold   bool // something is being downloaded
	sent   bool // a consumer is sent to another replica
	news   bool // a replica has not been told where the high watermark is
}

// fetchEntry is one partition of a fetch.
type fetchEntry struct {
	key      fetchKey
	offset   record.Offset
	maxBytes int
	epoch    record.Epoch

	part *partition.Partition
	code int16
	got  partition.Fetched
	seen *sessionPart // nil without a session

	noted bool             // the leader has taken over what a replica's fetch proves
	near  catalog.BrokerID // the replica that a consumer is sent to
}

func newFetch(h *Handlers, r *kmsg.FetchRequest, s *session) *fetch {
	f := &fetch{
		h: h, version: r.Version, session: s, committed: r.IsolationLevel == 1,
		maxBytes: min(int(r.MaxBytes), int(h.Config.Network.FetchMaxBytes)), minBytes: int(r.MinBytes),
		maxWait: time.Duration(max(r.MaxWaitMillis, 0)) * time.Millisecond,
	}
	if r.Version >= 11 {
		f.rack = r.Rack
	}
	if s != nil {
		f.entries = s.entries()
		return f
	}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			f.entries = append(f.entries, entryOf(keyOf(r.Version, t.Topic, t.TopicID, p.Partition), p))
		}
	}
	return f
}

func entryOf(k fetchKey, p kmsg.FetchRequestTopicPartition) *fetchEntry {
	return &fetchEntry{
		key: k, offset: record.Offset(p.FetchOffset), maxBytes: int(p.PartitionMaxBytes),
		epoch: record.Epoch(p.CurrentLeaderEpoch), near: catalog.NoBroker,
	}
}

// gather reads what is there, in the order of the entries, up to the size limits. It may be called
// again; cold data that has arrived is kept.
func (f *fetch) gather() {
	f.total, f.failed, f.cold, f.sent, f.news = 0, false, false, false, false
	for _, e := range f.entries {
		limit := min(e.maxBytes, f.maxBytes-f.total)
		e.collect(f, max(limit, 0), f.total == 0)
		f.total += e.got.Bytes
		f.failed = f.failed || e.code != 0
		f.cold = f.cold || e.got.Cold != nil
		f.sent = f.sent || e.near != catalog.NoBroker
		f.news = f.news || f.replica != (catalog.Member{}) && e.seen != nil && e.code == 0 && int64(e.got.HW) != e.seen.hw
	}
}

// collect fills in one entry. one asks for a whole batch even above the limit.
func (e *fetchEntry) collect(f *fetch, limit int, one bool) {
	req := partition.FetchRequest{
		From: e.offset, MaxBytes: limit, AtLeastOne: one, Committed: f.committed, LeaderEpoch: e.epoch, Owner: f.owner,
		Follower: f.version >= 11,
	}
	var err error
	switch {
	case e.got.Cold != nil:
		err = e.part.Resume(&e.got, req)
	case e.got.IsCold():
		e.got.Trim(limit, one)
	default:
		e.got.Release()
		if err = e.find(f); err == nil {
			e.got, err = e.read(f, req)
		} else {
			e.got = partition.Fetched{HW: -1, Stable: -1, Start: -1}
		}
	}
	if err == nil && f.version < 10 && e.got.HasZstd() {
		err = kerr.UnsupportedCompressionType // KIP-110: the client could not read it
	}
	e.code = codeFor(err)
	if err != nil {
		e.got.Release()
	}
}

// read asks the partition, as whom the fetch comes from.
func (e *fetchEntry) read(f *fetch, req partition.FetchRequest) (partition.Fetched, error) {
	if f.replica != (catalog.Member{}) {
		got, err := e.part.FetchReplica(req, f.replica, !e.noted)
		e.noted = e.noted || err == nil
		return got, err
	}
	if f.rack != "" {
		if near, ok := e.part.NearReplica(e.offset, f.isNear); ok {
			o := e.part.Offsets()
			e.near = near
			return partition.Fetched{HW: o.HW, Stable: o.Stable, Start: o.Start}, nil
		}
	}
	return e.part.Fetch(req)
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

func (e *fetchEntry) find(f *fetch) (err error) {
	if e.part != nil {
		return nil
	}
	e.part, err = f.h.find(f.version >= 13, e.key.topic, e.key.id, e.key.part)
	return err
}

// due reports whether the fetch is answered now.
func (f *fetch) due() bool {
	return f.failed || f.sent || f.total >= f.minBytes || f.maxWait == 0 || len(f.entries) == 0
}

// newsDelay is how long a replica may wait for records that take the high watermark along.
const newsDelay = 5 * time.Millisecond

// await waits until the fetch is due or its time is over.
func (f *fetch) await(ctx context.Context) {
	w := partition.NewWaiter()
	for _, e := range f.entries {
		switch {
		case e.part == nil:
			continue
		case f.replica != (catalog.Member{}):
			e.part.WatchTail(w)
		default:
			e.part.Watch(w)
		}
		defer e.part.Unwatch(w)
	}
	colds := newColdWaits(w)
	defer colds.stop()
	timer := time.NewTimer(f.maxWait)
	defer timer.Stop()
	var newsDue <-chan time.Time
	for {
		f.gather()
		if f.due() {
			return
		}
		if f.news && newsDue == nil {
			t := time.NewTimer(newsDelay)
			defer t.Stop()
			newsDue = t.C
		}
		if f.cold {
			for _, e := range f.entries {
				colds.add(e.got.Cold)
			}
		}
		select {
		case <-w.C():
		case <-timer.C:
			return
		case <-newsDue:
			return
		case <-ctx.Done():
			return
		}
	}
}

// keyOf names a partition as the request's version does.
func keyOf(version int16, topic string, id [16]byte, part int32) fetchKey {
	if version >= 13 {
		return fetchKey{id: catalog.TopicID(id), part: part}
	}
	return fetchKey{topic: topic, part: part}
}
