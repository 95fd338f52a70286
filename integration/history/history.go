package history

import (
	"fmt"
	"sync"
	"time"
)

// Partition names one.
type Partition struct {
	Topic     string
	Partition int32
}

func (p Partition) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Value is what a record stands for: the how manieth record of which producer.
type Value struct {
	Producer int32
	Seq      int64
}

func (v Value) String() string { return fmt.Sprintf("p%d:%d", v.Producer, v.Seq) }

// Anomaly is one thing that must not be.
type Anomaly struct {
	Kind string // as in the package's comment
	What string
}

// slot is what is known of one offset.
type slot struct {
	value  Value
	known  bool // somebody saw the value or was told the offset
	acked  bool
	atRest bool // the reader at the end found it
}

// cursor is where a consumer is in a partition.
type cursor struct {
	next int64
	// seen says which offsets it ever got.
	seen []bool
}

// gap are offsets that a consumer went past.
type gap struct {
	who      string
	p        Partition
	from, to int64
}

// History is all that clients saw. Safe for concurrent use.
type History struct {
	mu        sync.Mutex
	sent      map[int32][]Partition // by producer: where each value was sent to
	slots     map[Partition][]slot
	consumers map[string]map[Partition]*cursor
	gaps      []gap
	acked     int64
	kinds     map[string]int
	first     []Anomaly

	last    map[Partition]time.Time // of the last acknowledgement
	silence map[Partition]time.Duration
}

// New returns an empty history.
func New() *History {
	return &History{
		sent: map[int32][]Partition{}, slots: map[Partition][]slot{}, consumers: map[string]map[Partition]*cursor{},
		kinds: map[string]int{}, last: map[Partition]time.Time{}, silence: map[Partition]time.Duration{},
	}
}

// maxTold is how many anomalies of a kind are told; the others are counted.
const maxTold = 5

func (h *History) addLocked(kind, format string, args ...any) {
	if h.kinds[kind]++; h.kinds[kind] <= maxTold {
		h.first = append(h.first, Anomaly{kind, fmt.Sprintf(format, args...)})
	}
}

// Sent gives the value of the record that a producer is about to send to a partition.
func (h *History) Sent(producer int32, p Partition) Value {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[producer] = append(h.sent[producer], p)
	return Value{producer, int64(len(h.sent[producer]) - 1)}
}

// Acked notes that a value was acknowledged at an offset, and when.
func (h *History) Acked(p Partition, offset int64, v Value, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked++
	if last, ok := h.last[p]; ok {
		h.silence[p] = max(h.silence[p], now.Sub(last))
	}
	h.last[p] = now
	if offset < 0 {
		h.addLocked("refused", "%s of %s was acknowledged without an offset", v, p)
		return
	}
	h.placeLocked(p, offset, v, "acknowledged").acked = true
}

// Refused notes that a producer gave a value up.
func (h *History) Refused(p Partition, v Value, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.addLocked("refused", "%s to %s: %v", v, p, err)
}

// Count is how many values were acknowledged.
func (h *History) Count() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked
}

// LastAck is when a partition acknowledged something last.
func (h *History) LastAck(p Partition) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last[p]
}

// Silence is the longest time since the last Silence in which a partition acknowledged nothing, up to now.
func (h *History) Silence(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	longest := time.Duration(0)
	for p, last := range h.last {
		longest = max(longest, h.silence[p], now.Sub(last))
		h.silence[p], h.last[p] = 0, now
	}
	return longest
}

// Placed notes that a consumer goes on from an offset by its own will or a group's: what it gets next is no step. next -1
// is an offset that it does not know.
func (h *History) Placed(consumer string, p Partition, next int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cursorLocked(consumer, p).next = next
}

// Polled notes that a consumer got a value.
func (h *History) Polled(consumer string, p Partition, offset int64, v Value) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.placeLocked(p, offset, v, "polled by "+consumer)
	c := h.cursorLocked(consumer, p)
	switch {
	case c.next < 0:
	case offset < c.next:
		h.addLocked("non-monotonic poll", "%s got %s@%d, %d was due", consumer, p, offset, c.next)
	case offset > c.next:
		h.gaps = append(h.gaps, gap{consumer, p, c.next, offset})
	}
	c.next = offset + 1
	for int64(len(c.seen)) <= offset {
		c.seen = append(c.seen, false)
	}
	c.seen[offset] = true
}

// Reached is the end of what a consumer got of a partition.
func (h *History) Reached(consumer string, p Partition) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.cursorLocked(consumer, p).seen))
}

func (h *History) cursorLocked(consumer string, p Partition) *cursor {
	of := h.consumers[consumer]
	if of == nil {
		of = map[Partition]*cursor{}
		h.consumers[consumer] = of
	}
	if of[p] == nil {
		of[p] = &cursor{}
	}
	return of[p]
}

// placeLocked notes a value at an offset and compares it with what was seen there before.
func (h *History) placeLocked(p Partition, offset int64, v Value, how string) *slot {
	all := h.slots[p]
	for int64(len(all)) <= offset {
		all = append(all, slot{})
	}
	h.slots[p] = all
	s := &all[offset]
	if s.known && s.value != v {
		h.addLocked("inconsistent offset", "%s@%d: %s was seen there, now %s is %s", p, offset, s.value, v, how)
	}
	if sent := h.sent[v.Producer]; v.Seq < 0 || v.Seq >= int64(len(sent)) || sent[v.Seq] != p {
		h.addLocked("from nowhere", "%s@%d: nobody sent %s there", p, offset, v)
	}
	s.value, s.known = v, true
	return s
}
