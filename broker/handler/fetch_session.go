package handler

import (
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"tidemark/catalog"
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
	limit int

	mu   sync.Mutex // guards what follows; a leaf
	byID map[int32]*list.Element
	lru  *list.List // of *session, most recently used first
}

func newSessions(limit int) *sessions {
	return &sessions{limit: limit, byID: map[int32]*list.Element{}, lru: list.New()}
}

// session is what a broker remembers of one client's fetches. Its client sends one request at a time;
// mu keeps one that does not from doing harm.
type session struct {
	id      int32
	used    time.Time // guarded by sessions.mu
	mu      sync.Mutex
	epoch   int32 // the next one expected
	full    bool  // the answer in preparation names every partition
	byTopic bool  // named by topic name
	order   []*sessionPart
	parts   map[fetchKey]*sessionPart
}

// sessionPart is one partition of a session: what to read, and what the client was last told.
type sessionPart struct {
	key   fetchKey
	last  fetchEntry
	told  bool
	hw    int64
	start int64
}

// open finds or makes the session that a request names; nil without an error means a fetch without
// session.
func (ss *sessions) open(r *kmsg.FetchRequest, replica bool) (*session, *kerr.Error) {
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
	s := ss.find(r.SessionID)
	if s == nil {
		return nil, kerr.FetchSessionIDNotFound
	}
	return s, s.advance(r)
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
	defer ss.mu.Unlock()
	if el, ok := ss.byID[id]; ok {
		ss.lru.Remove(el)
		delete(ss.byID, id)
	}
}

// create makes a session, or none if the table is full of sessions in use: the client then sends whole
// requests. A replica gets one in any case: there are as many as brokers.
func (ss *sessions) create(r *kmsg.FetchRequest, replica bool) *session {
	s := &session{epoch: 1, full: true, byTopic: r.Version < 13, parts: map[fetchKey]*sessionPart{}, used: time.Now()}
	s.take(r)
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.lru.Len() >= ss.limit && !replica {
		oldest := ss.lru.Back()
		if oldest == nil || time.Since(oldest.Value.(*session).used) < sessionRest {
			return nil
		}
		ss.lru.Remove(oldest)
		delete(ss.byID, oldest.Value.(*session).id)
	}
	for s.id == 0 || ss.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32-1) + 1
	}
	ss.byID[s.id] = ss.lru.PushFront(s)
	return s
}

// advance takes over the changes that an incremental request brings.
func (s *session) advance(r *kmsg.FetchRequest) *kerr.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.SessionEpoch != s.epoch {
		return kerr.InvalidFetchSessionEpoch
	}
	if s.byTopic != (r.Version < 13) {
		return kerr.FetchSessionTopicIDError
	}
	s.epoch++
	if s.epoch <= 0 { // wrapped: 0 and -1 have meanings
		s.epoch = 1
	}
	s.full = false
	s.take(r)
	return nil
}

// take adds and changes the partitions that a request names and forgets those that it forgets.
func (s *session) take(r *kmsg.FetchRequest) {
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			k := keyOf(r.Version, t.Topic, t.TopicID, p.Partition)
			sp, ok := s.parts[k]
			if !ok {
				sp = &sessionPart{key: k}
				s.parts[k] = sp
				s.order = append(s.order, sp)
			}
			sp.last = *entryOf(k, p)
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, part := range t.Partitions {
			k := keyOf(r.Version, t.Topic, t.TopicID, part)
			if sp, ok := s.parts[k]; ok {
				delete(s.parts, k)
				s.order = slices.DeleteFunc(s.order, func(x *sessionPart) bool { return x == sp })
			}
		}
	}
}

// entries lists the session's partitions for one fetch, in its order.
func (s *session) entries() []*fetchEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	es := make([]*fetchEntry, len(s.order))
	for i, sp := range s.order {
		e := sp.last
		e.seen = sp
		es[i] = &e
	}
	return es
}

// shown picks the entries that the answer names: all in a full one, else those with records, an error, or
// a high watermark or start that the client has not been told. Partitions that were served go to the
// end of the order, so that none starves (H13).
func (s *session) shown(es []*fetchEntry) []*fetchEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := es[:0:0]
	served := map[*sessionPart]bool{}
	for _, e := range es {
		sp := e.seen
		hw, start := int64(e.got.HW), int64(e.got.Start)
		if s.full || !sp.told || e.got.Bytes > 0 || e.code != 0 || e.near != catalog.NoBroker || hw != sp.hw || start != sp.start {
			out = append(out, e)
		}
		sp.told, sp.hw, sp.start = e.code == 0, hw, start
		if e.got.Bytes > 0 {
			served[sp] = true
		}
	}
	if len(served) > 0 && len(served) < len(s.order) {
		slices.SortStableFunc(s.order, func(a, b *sessionPart) int {
			switch {
			case served[a] == served[b]:
				return 0
			case served[a]:
				return 1
			}
			return -1
		})
	}
	return out
}
