package handler

import (
	"container/list"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/broker/metadata"
	"tidemark/catalog"
	"tidemark/replication"
)

// Session epochs with a meaning of their own (KIP-227).
const (
	initialEpoch = 0
	finalEpoch   = -1
)

// sessionRest is how long a session must have been idle before a new one may take its place.
const sessionRest = 2 * time.Minute

// fetchKey names a partition within a session: by name before version 13, by id since.
type fetchKey struct {
	topic string
	id    catalog.TopicID
	part  int32
}

// sessions is the bounded table of incremental fetch sessions.
type sessions struct {
	limit int // sessions
	room  int // partitions, of sessions and of fetches that wait without one

	mu    sync.Mutex // guards what follows; a leaf
	byID  map[int32]*list.Element
	lru   *list.List // of *session, most recently used first
	parts int        // of room, in use

	inUse prometheus.Gauge // parts
}

func newSessions(limit, room int, inUse prometheus.Gauge) *sessions {
	return &sessions{limit: limit, room: room, inUse: inUse, byID: map[int32]*list.Element{}, lru: list.New()}
}

// session is what a broker remembers of one client's fetches. A partition in which the client has everything is watched
// and costs nothing until it moves, so a fetch costs what has changed, whatever the session holds.
type session struct {
	id      int32
	used    time.Time      // guarded by sessions.mu
	counted int            // guarded by sessions.mu: its part of sessions.parts
	replica catalog.Member // whose it is; zero: a consumer's
	ended   atomic.Bool    // it is in the table no more

	// turn is held by the fetch that uses what follows: clients send one at a time. Of size 1.
	turn     chan struct{}
	epoch    int32 // the next one expected
	full     bool  // the answer in preparation names every partition
	byTopic  bool  // named by topic name
	kind     fetchKind
	parts    map[fetchKey]*fetchEntry
	open     []*fetchEntry // to look at, in turn: those that were served last come last
	moves    *moves
	presence *replication.Presence // of a replica
}

// fetchKind is what makes two fetches of a session see the same partition differently.
type fetchKind struct {
	version        int16
	committed      bool
	rack, listener string
	image          *metadata.Image
}

// open finds or makes the session that a request names; nil without an error means a fetch without
// session.
func (ss *sessions) open(r *kmsg.FetchRequest, replica catalog.Member) (*session, *kerr.Error) {
	if r.Version < 7 || (r.SessionEpoch == finalEpoch && r.SessionID == 0) {
		return nil, nil
	}
	switch r.SessionEpoch {
	case finalEpoch:
		ss.drop(r.SessionID)
		return nil, nil
	case initialEpoch:
		ss.drop(r.SessionID)
		return ss.create(r, replica), nil
	}
	if s := ss.find(r.SessionID); s != nil {
		return s, nil
	}
	return nil, kerr.FetchSessionIDNotFound
}

func (ss *sessions) find(id int32) *session {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	el, ok := ss.byID[id]
	if !ok {
		return nil
	}
	ss.lru.MoveToFront(el)
	s := el.Value.(*session)
	s.used = time.Now()
	return s
}

func (ss *sessions) drop(id int32) {
	ss.mu.Lock()
	var s *session
	if el, ok := ss.byID[id]; ok {
		s = el.Value.(*session)
		ss.removeLocked(el)
	}
	ss.mu.Unlock()
	if s != nil {
		s.end()
	}
}

func (ss *sessions) removeLocked(el *list.Element) {
	s := el.Value.(*session)
	ss.lru.Remove(el)
	delete(ss.byID, s.id)
	ss.takeLocked(-s.counted)
}

// create makes a session, or none if the table is full of sessions in use: the client then sends whole
// requests. A replica gets one in any case: there are as many as brokers.
func (ss *sessions) create(r *kmsg.FetchRequest, replica catalog.Member) *session {
	s := &session{
		turn: make(chan struct{}, 1), replica: replica, byTopic: r.Version < 13,
		parts: map[fetchKey]*fetchEntry{}, moves: newMoves(), used: time.Now(),
	}
	n := 0
	for i := range r.Topics {
		n += len(r.Topics[i].Partitions)
	}
	if replica != (catalog.Member{}) {
		s.presence = &replication.Presence{}
		n = 0
	}
	ss.mu.Lock()
	old, ok := ss.makeRoomLocked(n, s.presence != nil)
	if ok {
		s.counted = n
		ss.takeLocked(n)
		for s.id == 0 || ss.byID[s.id] != nil {
			s.id = rand.Int32N(math.MaxInt32-1) + 1
		}
		ss.byID[s.id] = ss.lru.PushFront(s)
	}
	ss.mu.Unlock()
	for _, o := range old {
		o.end()
	}
	if !ok {
		return nil
	}
	return s
}

// makeRoomLocked removes sessions that have been idle for long until there is room for one of n partitions, and returns
// them; the caller ends them.
func (ss *sessions) makeRoomLocked(n int, replica bool) (old []*session, ok bool) {
	if !replica && n > ss.room {
		return nil, false
	}
	for !replica && (ss.lru.Len() >= ss.limit || ss.parts+n > ss.room) {
		oldest := ss.lru.Back()
		if oldest == nil || time.Since(oldest.Value.(*session).used) < sessionRest {
			return old, false
		}
		old = append(old, oldest.Value.(*session))
		ss.removeLocked(oldest)
	}
	return old, true
}

func (ss *sessions) takeLocked(n int) {
	ss.parts += n
	ss.inUse.Set(float64(ss.parts))
}

// reserve takes room for a fetch of n partitions that waits without a session; release gives it back.
func (ss *sessions) reserve(n int) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.parts+n > ss.room {
		return false
	}
	ss.takeLocked(n)
	return true
}

func (ss *sessions) release(n int) {
	ss.mu.Lock()
	ss.takeLocked(-n)
	ss.mu.Unlock()
}

// recount takes room for what a session has become; false if there is none, or the session has ended.
func (ss *sessions) recount(s *session) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	el, ok := ss.byID[s.id]
	if !ok || el.Value.(*session) != s {
		return false
	}
	if s.presence != nil {
		return true
	}
	more := len(s.parts) - s.counted
	if more > 0 && ss.parts+more > ss.room {
		return false
	}
	ss.takeLocked(more)
	s.counted = len(s.parts)
	return true
}

// advance takes over what a request changes in the session, whose turn the caller has.
func (ss *sessions) advance(s *session, r *kmsg.FetchRequest, replica catalog.Member) *kerr.Error {
	if r.SessionEpoch == initialEpoch {
		s.epoch, s.full = 1, true
		s.take(r)
		if !ss.recount(s) {
			return kerr.FetchSessionIDNotFound
		}
		return nil
	}
	switch {
	case s.ended.Load(), s.replica != replica: // another asks, or the same in another role (H29)
		return kerr.FetchSessionIDNotFound
	case r.SessionEpoch != s.epoch:
		return kerr.InvalidFetchSessionEpoch
	case s.byTopic != (r.Version < 13):
		return kerr.FetchSessionTopicIDError
	}
	s.epoch++
	if s.epoch <= 0 { // wrapped: 0 and -1 have meanings
		s.epoch = 1
	}
	s.full = false
	s.take(r)
	if !ss.recount(s) {
		ss.drop(s.id)
		return kerr.FetchSessionIDNotFound
	}
	return nil
}

func (s *session) tryTurn() bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *session) awaitTurn(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// endTurn gives the turn back. A session that has ended meanwhile stops watching.
func (s *session) endTurn() {
	<-s.turn
	if s.ended.Load() && s.tryTurn() {
		s.unwatch()
		<-s.turn
	}
}

// end is called once the session is out of the table. A fetch that has the turn goes on; it stops the watching.
func (s *session) end() {
	s.ended.Store(true)
	if s.tryTurn() {
		s.unwatch()
		<-s.turn
	}
}

func (s *session) unwatch() {
	for _, e := range s.parts {
		e.leave(s.replica)
		e.unwatch()
	}
}

// take adds and changes the partitions that a request names and forgets those that it forgets.
func (s *session) take(r *kmsg.FetchRequest) {
	for _, t := range r.Topics {
		for i := range t.Partitions {
			k := keyOf(r.Version, t.Topic, t.TopicID, t.Partitions[i].Partition)
			e, ok := s.parts[k]
			if !ok {
				e = &fetchEntry{key: k, moves: s.moves}
				s.parts[k] = e
			}
			s.list(e)
			e.ask(&t.Partitions[i])
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, part := range t.Partitions {
			k := keyOf(r.Version, t.Topic, t.TopicID, part)
			if e, ok := s.parts[k]; ok {
				delete(s.parts, k)
				e.leave(s.replica)
				e.unwatch()
				e.gone = true
			}
		}
	}
}

// list has the partition looked at by the next fetch.
func (s *session) list(e *fetchEntry) {
	if !e.listed {
		e.listed = true
		s.open = append(s.open, e)
	}
}

// begin returns what a fetch has to look at: what the last one did not come to the end of, and what has moved or was
// asked for anew since.
func (s *session) begin(k fetchKind) []*fetchEntry {
	if s.kind != k {
		s.kind = k
		for _, e := range s.parts {
			s.list(e)
		}
	}
	for _, e := range s.moves.take() {
		s.list(e)
	}
	n := 0
	for _, e := range s.open {
		if !e.gone {
			e.begin()
			s.open[n] = e
			n++
		}
	}
	clear(s.open[n:])
	s.open = s.open[:n]
	return s.open
}

// shown picks the entries that the answer names: all in a full one, else those with records, an error, or
// a high watermark or start that the client has not been told.
func (s *session) shown(es []*fetchEntry) []*fetchEntry {
	var out []*fetchEntry
	for _, e := range es {
		hw, start := int64(e.got.HW), int64(e.got.Start)
		if s.full || !e.told || e.got.Bytes > 0 || e.code != 0 || e.near != catalog.NoBroker || hw != e.hw || start != e.start {
			out = append(out, e)
		}
		e.told, e.hw, e.start = e.code == 0, hw, start
	}
	return out
}

// settle ends a fetch: idle partitions are not looked at until they move, and those that were served go to the
// end, so that none starves (H13).
func (s *session) settle(es []*fetchEntry) {
	var served []*fetchEntry
	n := 0
	for _, e := range es {
		switch {
		case e.idle:
			e.listed = false
		case e.served:
			served = append(served, e)
		default:
			es[n] = e
			n++
		}
	}
	n += copy(es[n:], served)
	clear(es[n:])
	s.open = es[:n]
}
