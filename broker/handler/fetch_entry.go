package handler

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/partition"
	"tidemark/catalog"
	"tidemark/record"
)

// fetchEntry is one partition of a fetch: what to read, and what there was. A session's stays from fetch to fetch. Only
// the fetch that has the session's turn uses it.
type fetchEntry struct {
	key      fetchKey
	offset   record.Offset
	maxBytes int
	epoch    record.Epoch
	moves    *moves

	part    *partition.Partition
	watched *partition.Partition // who tells of moves
	code    int16
	got     partition.Fetched
	near    catalog.BrokerID // the replica that a consumer is sent to
	limit   int              // bytes that there was room for

	looked bool // by this fetch
	idle   bool // there is nothing until the partition moves, and that is watched

	noted   bool  // the leader was told what this fetch proves of a replica
	refused error // and did not believe it

	// What a session knows beside.
	listed bool // it will be looked at by the session's next fetch, or is by the present one
	served bool // the last answer had records of it
	gone   bool // the client does not want it any more
	told   bool // the client knows hw and start
	hw     int64
	start  int64

	moved bool // guarded by moves.mu: it is in the list
}

// ask takes over what a request says of the partition.
func (e *fetchEntry) ask(p *kmsg.FetchRequestTopicPartition) {
	e.offset, e.maxBytes, e.epoch = record.Offset(p.FetchOffset), int(p.PartitionMaxBytes), record.Epoch(p.CurrentLeaderEpoch)
	e.begin()
}

// begin makes it one that the present fetch has not looked at yet.
func (e *fetchEntry) begin() {
	e.code, e.near, e.got = 0, catalog.NoBroker, partition.Fetched{}
	e.looked, e.idle, e.listed = false, false, true
	e.noted, e.refused = false, nil
}

// Moved implements partition.Watcher.
func (e *fetchEntry) Moved(n *partition.News) (again bool) {
	e.moves.mu.Lock()
	if !e.moved {
		e.moved = true
		e.moves.list = append(e.moves.list, e)
	}
	e.moves.mu.Unlock()
	n.Wake(e.moves.waiter)
	return false
}

// moves are the partitions of a session, or of a fetch without, that have moved since they were looked at. A partition
// tells of one move; it is watched again when it has been looked at.
type moves struct {
	waiter *partition.Waiter

	mu   sync.Mutex // guards list and its entries' moved; a leaf, after the partition's waiters
	list []*fetchEntry
	last []*fetchEntry // what take returned
}

func newMoves() *moves { return &moves{waiter: partition.NewWaiter()} }

// take returns what has moved since the last take; it is good until the next one.
func (m *moves) take() []*fetchEntry {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list, m.last = m.last[:0], m.list
	for _, e := range m.last {
		e.moved = false
	}
	return m.last
}

// collect fills in what there is. one asks for a whole batch even above the limit.
func (e *fetchEntry) collect(f *fetch, limit int, one bool) {
	req := partition.FetchRequest{
		From: e.offset, MaxBytes: limit, AtLeastOne: one, Committed: f.committed, LeaderEpoch: e.epoch, Owner: f.owner,
		Follower: f.version >= 11,
	}
	first := !e.looked
	e.looked, e.idle, e.limit = true, false, limit
	var err error
	switch {
	case e.got.Cold != nil:
		err = e.part.Resume(&e.got, req)
	case e.got.IsCold():
		e.got.Trim(limit, one)
		return
	}
	if err == nil && e.got.Cold == nil && !e.got.IsCold() {
		e.got.Release()
		if err = e.refused; f.replica == (catalog.Member{}) {
			err = e.find(f) // a replica's has been found
		}
		if err == nil {
			err = e.read(f, req, first)
		} else {
			e.got = partition.Fetched{HW: -1, Stable: -1, Start: -1}
		}
	}
	if err == nil && f.version < 10 && e.got.HasZstd() {
		err = kerr.UnsupportedCompressionType // KIP-110: the client could not read it
	}
	e.code = codeFor(err)
	if err != nil {
		e.idle = false
		e.got.Release()
		e.leave(f.replica)
	}
}

// ready is what counts towards min_bytes: all that there is, up to the limits. Batches rarely fill those to the byte.
func (e *fetchEntry) ready() int {
	if e.got.More {
		return max(e.got.Bytes, e.limit)
	}
	return e.got.Bytes
}

// find looks the partition up. One that was made again under its name is another one.
func (e *fetchEntry) find(f *fetch) (err error) {
	e.part, err = f.h.find(f.version >= 13, e.key.topic, e.key.id, e.key.part)
	if e.watched != nil && e.watched != e.part {
		e.leave(f.replica)
		e.unwatch()
	}
	return err
}

// read asks the partition. Where there is nothing, a session's fetch watches it and looks once more: from then on it is
// not looked at until it moves. A fetch that waits watches all that it looks at. first: it is this fetch's first look.
func (e *fetchEntry) read(f *fetch, req partition.FetchRequest, first bool) (err error) {
	if f.watching {
		e.watch(f)
	}
	if e.got, err = e.readAs(f, req); err != nil || !e.got.AtEnd || !f.watching && f.session == nil {
		return err
	}
	if !f.watching {
		e.watch(f)
		if e.got, err = e.readAs(f, req); err != nil || !e.got.AtEnd {
			return err
		}
	}
	// A replica that is told of a move while its fetch waits has not proved anything since: its next fetch does.
	e.idle = first || f.replica == (catalog.Member{})
	if e.idle && f.session != nil && f.session.presence != nil {
		e.part.StayReplica(f.replica.Broker, f.session.presence)
	}
	return nil
}

// readAs asks the partition, as whom the fetch comes from.
func (e *fetchEntry) readAs(f *fetch, req partition.FetchRequest) (partition.Fetched, error) {
	if f.replica != (catalog.Member{}) {
		return e.part.FetchReplica(req)
	}
	e.near = catalog.NoBroker
	if f.rack != "" {
		if near, ok := e.part.NearReplica(e.offset, f.isNear); ok {
			o := e.part.Offsets()
			e.near = near
			return partition.Fetched{HW: o.HW, Stable: o.Stable, Start: o.Start}, nil
		}
	}
	return e.part.Fetch(req)
}

// prove has the leader take over what a replica's fetch proves, once a fetch.
func (e *fetchEntry) prove(f *fetch) {
	if e.noted || e.gone {
		return
	}
	e.noted = true
	if e.refused = e.find(f); e.refused == nil {
		e.refused = e.part.NoteReplica(partition.ReplicaFetch{Member: f.replica, From: e.offset, LeaderEpoch: e.epoch}, f.lifted)
	}
}

// watch has the partition's next move told.
func (e *fetchEntry) watch(f *fetch) {
	e.watched = e.part
	if f.replica != (catalog.Member{}) {
		e.part.WatchTail(e)
		return
	}
	e.part.Watch(e)
}

func (e *fetchEntry) unwatch() {
	if e.watched != nil {
		e.watched.Unwatch(e)
		e.watched = nil
	}
}

// leave tells the leader that the replica's coming proves nothing of this partition.
func (e *fetchEntry) leave(replica catalog.Member) {
	if e.watched != nil && replica != (catalog.Member{}) {
		e.watched.LeaveReplica(replica.Broker)
	}
}
