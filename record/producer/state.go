package producer

import (
	"math"
	"slices"

	"tidemark/record"
)

// DefaultMaxProducers bounds the producers that a partition remembers.
const DefaultMaxProducers = 10_000

// window is how many batches per producer are remembered, Kafka's number: a
// client may have as many in flight.
const window = 5

const (
	none      int32         = -1 // no entry, in the list by idleness
	noTxn     record.Offset = -1
	noEpoch   int16         = -1
	noManager int32         = -1 // no coordinator epoch seen
)

// batch is one remembered batch. Its first sequence and base offset follow from
// delta.
type batch struct {
	lastOffset record.Offset
	timestamp  int64
	lastSeq    int32
	delta      int32
}

func (b batch) base() record.Offset { return b.lastOffset - record.Offset(b.delta) }

func (b batch) firstSeq() int32 {
	return int32((int64(b.lastSeq) - int64(b.delta)) & math.MaxInt32)
}

// entry is one producer. Entries stand in one slice and are linked by idleness.
type entry struct {
	id          int64
	txnFirst    record.Offset // noTxn: none open
	at          int64         // append time of its last batch or marker, ms
	batches     [window]batch // oldest first
	coordinator int32
	prev, next  int32 // towards longer and shorter idle
	epoch       int16
	count       uint8 // of batches
}

func (e *entry) last() *batch { return &e.batches[e.count-1] }

func (e *entry) remember(b batch) {
	if e.count == window {
		copy(e.batches[:], e.batches[1:])
		e.count--
	}
	e.batches[e.count] = b
	e.count++
}

// span is a transaction that has ended but whose marker may not be below the high
// watermark yet.
type span struct{ first, last record.Offset }

// openTxn is a transaction without marker.
type openTxn struct {
	first record.Offset
	id    int64
}

// State is what the batches below End say of their producers.
type State struct {
	end          record.Offset
	max          int
	entries      []entry
	free         []int32
	byID         map[int64]int32
	oldest       int32
	newest       int32
	open         []openTxn // by first offset, so that the oldest is found at once
	unreplicated []span    // by last offset
	evicted      uint64
}

// New returns the state before any batch, of a log that begins at start, for at
// most maxProducers (0: DefaultMaxProducers).
func New(start record.Offset, maxProducers int) *State {
	if maxProducers <= 0 {
		maxProducers = DefaultMaxProducers
	}
	return &State{end: start, max: maxProducers, byID: map[int64]int32{}, oldest: none, newest: none}
}

// End is the offset after the last batch applied.
func (s *State) End() record.Offset { return s.end }

// Len is the number of producers remembered.
func (s *State) Len() int { return len(s.byID) }

// Evicted counts producers forgotten because MaxProducers was reached, since this
// State was made.
func (s *State) Evicted() uint64 { return s.evicted }

// SkipTo moves End forward over offsets that hold no batch: a hole that
// compaction left, or a log that begins again at a later offset.
func (s *State) SkipTo(end record.Offset) { s.end = max(s.end, end) }

// Clone returns a copy that shares nothing.
func (s *State) Clone() *State {
	c := *s
	c.entries = slices.Clone(s.entries)
	c.free = slices.Clone(s.free)
	c.open = slices.Clone(s.open)
	c.unreplicated = slices.Clone(s.unreplicated)
	c.byID = make(map[int64]int32, len(s.byID))
	for id, i := range s.byID {
		c.byID[id] = i
	}
	return &c
}

// FirstOpen is the first offset of the oldest transaction that is still open.
func (s *State) FirstOpen() (record.Offset, bool) {
	if len(s.open) == 0 {
		return record.NoOffset, false
	}
	return s.open[0].first, true
}

// begin opens the producer's transaction at first. Batches come in offset order,
// so it is the youngest, unless a snapshot is being read.
func (s *State) begin(e *entry, first record.Offset) {
	e.txnFirst = first
	i := len(s.open)
	for i > 0 && s.open[i-1].first > first {
		i--
	}
	s.open = slices.Insert(s.open, i, openTxn{first, e.id})
}

// finish closes the producer's open transaction.
func (s *State) finish(e *entry) {
	i := slices.Index(s.open, openTxn{e.txnFirst, e.id})
	s.open = slices.Delete(s.open, i, i+1)
	e.txnFirst = noTxn
}

// EndOpen forgets the open transactions: their markers lie above the end of a log that begins anew where
// the object tier ends, and were lost with it (R18). What they wrote lies below and stays as it is.
func (s *State) EndOpen() {
	for len(s.open) > 0 {
		e := s.find(s.open[0].id)
		s.finish(e)
	}
}

// FirstUnstable is where the last stable offset stands if hw is beyond it: the
// first offset of the oldest transaction that is open, or whose marker is not
// below hw, so that a new leader may yet decide otherwise (KIP-98).
func (s *State) FirstUnstable(hw record.Offset) (record.Offset, bool) {
	first, found := s.FirstOpen()
	for _, t := range s.unreplicated {
		if t.last >= hw && (!found || t.first < first) {
			first, found = t.first, true
		}
	}
	return first, found
}

// Settle forgets the ended transactions whose markers lie below hw. Whoever only
// walks settled data calls it with End.
func (s *State) Settle(hw record.Offset) {
	i := 0
	for i < len(s.unreplicated) && s.unreplicated[i].last < hw {
		i++
	}
	s.unreplicated = slices.Delete(s.unreplicated, 0, i)
}

// Expire forgets the producers that have written nothing for maxIdle milliseconds
// at now (wall time, milliseconds, of the same clock as Apply's) and have no open
// transaction; it returns how many. A clock that went back expires nothing.
func (s *State) Expire(now, maxIdle int64) int {
	expired := 0
	for i := s.oldest; i != none; {
		e := &s.entries[i]
		next := e.next
		if e.txnFirst == noTxn && e.at <= now && uint64(now)-uint64(e.at) >= uint64(maxIdle) {
			s.remove(i)
			expired++
		}
		i = next
	}
	return expired
}

func (s *State) find(id int64) *entry {
	if i, ok := s.byID[id]; ok {
		return &s.entries[i]
	}
	return nil
}

// touch returns the entry of id, made if it is new, as the least idle one.
func (s *State) touch(id int64, at int64) *entry {
	i, ok := s.byID[id]
	if ok {
		s.unlink(i)
	} else {
		for len(s.byID) >= s.max && s.evict() {
		}
		i = s.insert(id)
	}
	s.link(i)
	e := &s.entries[i]
	e.at = at
	return e
}

// insert adds an entry that is not linked yet; it does not look at the bound.
func (s *State) insert(id int64) int32 {
	var i int32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = int32(len(s.entries))
		s.entries = append(s.entries, entry{})
	}
	s.entries[i] = entry{id: id, txnFirst: noTxn, epoch: noEpoch, coordinator: noManager}
	s.byID[id] = i
	return i
}

// evict forgets the longest idle producer without open transaction, if any.
func (s *State) evict() bool {
	for i := s.oldest; i != none; i = s.entries[i].next {
		if s.entries[i].txnFirst == noTxn {
			s.remove(i)
			s.evicted++
			return true
		}
	}
	return false
}

func (s *State) remove(i int32) {
	s.unlink(i)
	delete(s.byID, s.entries[i].id)
	s.free = append(s.free, i)
}

func (s *State) link(i int32) {
	e := &s.entries[i]
	e.prev, e.next = s.newest, none
	if s.newest == none {
		s.oldest = i
	} else {
		s.entries[s.newest].next = i
	}
	s.newest = i
}

func (s *State) unlink(i int32) {
	e := &s.entries[i]
	if e.prev == none {
		s.oldest = e.next
	} else {
		s.entries[e.prev].next = e.next
	}
	if e.next == none {
		s.newest = e.prev
	} else {
		s.entries[e.next].prev = e.prev
	}
}
