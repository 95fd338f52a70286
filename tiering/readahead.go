package tiering

import (
	"container/list"
	"context"
	"sync"

	"tidemark/catalog"
	"tidemark/record"
)

// maxStreams bounds the sequential readers that are followed.
const maxStreams = 1024

// readAhead follows sequential readers. One that crosses from chunk to chunk gets a window of chunks
// that are downloaded ahead of it; the window doubles with each crossing, over object ends too.
type readAhead struct {
	most int

	mu      sync.Mutex // guards what is below and every stream's fields
	streams map[jobKey]*stream
	order   *list.List // of *stream, the last active one in front
}

// stream is one reader. It is found by the offset that it will ask for next.
type stream struct {
	key    jobKey
	place  *list.Element
	chunk  record.Offset // first offset of the present chunk's range
	window int
	// asked are the first offsets of the chunks asked for ahead; frontier follows them.
	asked    []record.Offset
	frontier record.Offset
	working  bool
	owner    uint64
}

func newReadAhead(most int) *readAhead {
	return &readAhead{most: most, streams: make(map[jobKey]*stream), order: list.New()}
}

// step moves the stream that was to ask for from on to next, in the chunk that begins at begin and ends
// before after. It returns the stream if chunks are to be asked for.
func (a *readAhead) step(req ReadRequest, next, begin, after record.Offset) *stream {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.findLocked(jobKey{req.Partition, req.From}, jobKey{req.Partition, next})
	if s == nil {
		s = &stream{chunk: begin, frontier: after}
		s.place = a.order.PushFront(s)
	}
	s.owner = req.Owner
	if begin > s.chunk {
		s.chunk = begin
		s.window = min(max(2*s.window, 1), a.most)
	}
	for len(s.asked) > 0 && s.asked[0] <= begin {
		s.asked = s.asked[1:]
	}
	s.frontier = max(s.frontier, after)
	s.key = jobKey{req.Partition, next}
	a.streams[s.key] = s
	if a.order.Len() > maxStreams {
		oldest := a.order.Remove(a.order.Back()).(*stream)
		delete(a.streams, oldest.key)
	}
	if s.working || len(s.asked) >= s.window {
		return nil
	}
	s.working = true
	return s
}

// findLocked takes the stream that an answer moves out of the map. Readers that go side by side are one
// stream: the second finds it where the first has moved it.
func (a *readAhead) findLocked(from, next jobKey) *stream {
	s := a.streams[from]
	if moved := a.streams[next]; moved != nil {
		if s != nil && s != moved {
			a.order.Remove(s.place)
			delete(a.streams, from)
		}
		s = moved
	}
	if s != nil {
		delete(a.streams, s.key)
		a.order.MoveToFront(s.place)
	}
	return s
}

// want is where the next chunk to ask for begins, and for whom; false if the window is full.
func (a *readAhead) want(s *stream) (o record.Offset, owner uint64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(s.asked) >= s.window {
		s.working = false
		return 0, 0, false
	}
	return s.frontier, s.owner, true
}

// took notes that the chunk at the frontier was asked for; it ends before next.
func (a *readAhead) took(s *stream, next record.Offset) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.asked = append(s.asked, s.frontier)
	s.frontier = next
}

// rest ends the work on a stream until its reader moves on.
func (a *readAhead) rest(s *stream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.working = false
}

// follow tells the read-ahead of an answer.
func (r *readers) follow(at place, req ReadRequest, next record.Offset) {
	after, ok := at.tail.AfterGroup(at.span)
	if !ok {
		after = at.tail.Next
	}
	begin := at.tail.BaseAt(at.span.From)
	s := r.ahead.step(req, next, begin, after)
	if s == nil {
		return
	}
	if !r.t.begin(func() { r.fetchAhead(s, req.Partition) }) {
		r.ahead.rest(s)
	}
}

// fetchAhead asks for chunks until the stream's window is full, the tier ends, or the cache has no room.
func (r *readers) fetchAhead(s *stream, p catalog.PartitionID) {
	ctx, cancel := context.WithTimeout(r.t.ctx, r.t.o.ReadTimeout)
	defer cancel()
	w := waiting{r.t}
	for {
		o, owner, ok := r.ahead.want(s)
		if !ok {
			return
		}
		seg, err := w.row(ctx, p, o)
		if err != nil {
			r.ahead.rest(s)
			return
		}
		tail, err := w.tail(ctx, seg)
		if err != nil {
			r.ahead.rest(s)
			return
		}
		ref := chunkRef{seg: seg, tail: tail, owner: owner}
		ref.number, ref.span = tail.Chunk(tail.Locate(o), r.t.o.ChunkBytes)
		if !r.t.o.Cache.Prefetch(r.t.request(ref)) {
			r.ahead.rest(s)
			return
		}
		r.t.m.prefetch.Inc()
		after, ok := tail.AfterGroup(ref.span)
		if !ok {
			after = seg.Next
		}
		r.ahead.took(s, after)
	}
}
