package object

import (
	"fmt"
	"hash/crc32"

	"tidemark/record"
	"tidemark/record/producer"
)

// Tail is what a reader knows of an object from its tail group. It is immutable.
type Tail struct {
	Footer
	Epochs  record.EpochHistory
	aborted producer.AbortedList
	index   index
}

// Span is a range of the object's data, [From, To), that begins and ends at batch edges.
type Span struct{ From, To int64 }

// Bytes is the span's length.
func (s Span) Bytes() int64 { return s.To - s.From }

// ParseTail reads a tail group: the bytes of an object of objectBytes from position on. It keeps
// nothing of them. Errors: ErrFormat, ErrVersion, ErrShort.
func ParseTail(tail []byte, position, objectBytes int64) (*Tail, error) {
	f, err := ParseFooter(tail, objectBytes)
	if err != nil {
		return nil, err
	}
	if f.TailPosition != position || position+int64(len(tail)) != objectBytes {
		return nil, fmt.Errorf("%w: tail of %d bytes at %d of %d, footer says %d", ErrFormat, len(tail), position, objectBytes, f.TailPosition)
	}
	t := &Tail{Footer: *f}
	block := func(bt BlockType) []byte {
		if err != nil {
			return nil
		}
		var b []byte
		b, err = t.cut(tail, bt)
		return b
	}
	aborted, epochs := block(BlockAborted), block(BlockEpochs)
	times, offsets := block(BlockTimes), block(BlockOffsets)
	if err != nil {
		return nil, err
	}
	if t.aborted, aborted, err = producer.DecodeAborted(aborted); err != nil || len(aborted) > 0 {
		return nil, fmt.Errorf("%w: aborted transactions: %d bytes left, %w", ErrFormat, len(aborted), orNone(err))
	}
	if t.Epochs, epochs, err = record.DecodeEpochHistory(epochs); err != nil || len(epochs) > 0 {
		return nil, fmt.Errorf("%w: epochs: %d bytes left, %w", ErrFormat, len(epochs), orNone(err))
	}
	t.index, err = parseIndex(offsets, times, f)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func orNone(err error) error {
	if err == nil {
		return ErrFormat
	}
	return err
}

// cut returns the bytes of a block of the tail group after checking them.
func (t *Tail) cut(tail []byte, bt BlockType) ([]byte, error) {
	b, ok := t.Block(bt)
	if !ok || b.Position < t.TailPosition {
		return nil, fmt.Errorf("%w: no block of type %d in the tail", ErrFormat, bt)
	}
	raw := tail[b.Position-t.TailPosition:][:b.Length]
	return raw, CheckBlock(b, raw)
}

// CheckBlock compares the bytes of a block with its entry in the table. Errors: ErrFormat, ErrVersion.
func CheckBlock(b Block, raw []byte) error {
	switch {
	case b.Flags != 0:
		return fmt.Errorf("%w: block %d has flags %#x", ErrVersion, b.Type, b.Flags)
	case int64(len(raw)) != b.Length:
		return fmt.Errorf("%w: %d bytes of block %d's %d", ErrFormat, len(raw), b.Type, b.Length)
	case crc32.Checksum(raw, castagnoli) != b.CRC:
		return fmt.Errorf("%w: checksum of block %d", ErrFormat, b.Type)
	}
	return nil
}

// ProducerBlock is the entry of the producer state, false if there is none.
func (f *Footer) ProducerBlock() (Block, bool) { return f.Block(BlockProducers) }

// ParseProducers reads the producer-state block: the state at Next. Errors: ErrFormat, ErrVersion.
func (f *Footer) ParseProducers(raw []byte) (*producer.State, error) {
	b, ok := f.Block(BlockProducers)
	if !ok {
		return nil, fmt.Errorf("%w: no producer state", ErrFormat)
	}
	if err := CheckBlock(b, raw); err != nil {
		return nil, err
	}
	s, err := producer.Decode(raw, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return s, nil
}

// Locate returns a position of the data at or before the batch that holds o, at most about IndexEvery
// bytes before it.
func (t *Tail) Locate(o record.Offset) int64 {
	return t.index[t.index.groupOf(o)].position
}

// BaseAt returns the base offset of the last group that begins at or before a position.
func (t *Tail) BaseAt(position int64) record.Offset {
	return t.index[max(t.index.groupAt(position+1)-1, 0)].base
}

// GroupBefore returns the position of the last group that begins at or before a position.
func (t *Tail) GroupBefore(position int64) int64 {
	return t.index[max(t.index.groupAt(position+1)-1, 0)].position
}

// LocateTime returns the first group of batches, of those that hold from or follow it, in which a
// record has a timestamp ≥ ts; false if there is none. If that record lies below from, the search goes
// on with the group's end (AfterGroup).
func (t *Tail) LocateTime(ts int64, from record.Offset) (Span, bool) {
	for i := t.index.groupOf(from); i < len(t.index); i++ {
		if t.index[i].maxTime >= ts && t.index[i].maxTime != record.NoTimestamp {
			return t.group(i), true
		}
	}
	return Span{}, false
}

// AfterGroup returns the first offset of the group that begins at a span's end, false if none does.
func (t *Tail) AfterGroup(s Span) (record.Offset, bool) {
	if i := t.index.groupAt(s.To); i < len(t.index) {
		return t.index[i].base, true
	}
	return 0, false
}

// Group is a run of batches between two index entries.
type Group struct {
	Span
	// MaxTime is the largest timestamp of its records, record.NoTimestamp if there are none.
	MaxTime int64
	// Inside says that all of the group's offsets lie in the range asked for.
	Inside bool
}

// Groups lists the groups that may hold offsets of [from, to).
func (t *Tail) Groups(from, to record.Offset) []Group {
	var out []Group
	for i := t.index.groupOf(from); i < len(t.index) && t.index[i].base < to; i++ {
		end := t.Next
		if i+1 < len(t.index) {
			end = t.index[i+1].base
		}
		out = append(out, Group{Span: t.group(i), MaxTime: t.index[i].maxTime, Inside: t.index[i].base >= from && end <= to})
	}
	return out
}

func (t *Tail) group(i int) Span {
	s := Span{From: t.index[i].position, To: t.DataBytes}
	if i+1 < len(t.index) {
		s.To = t.index[i+1].position
	}
	return s
}

// Chunk returns the chunk of the data that holds a position, when it is divided about every size bytes
// at index entries: so each chunk holds whole batches. number names the chunk within the object.
// position must be in the data.
func (t *Tail) Chunk(position, size int64) (number int64, s Span) {
	// Chunk k is made of the groups that begin in [k*size, (k+1)*size).
	g := max(t.index.groupAt(position+1)-1, 0)
	number = t.index[g].position / size
	first, last := t.index.groupAt(number*size), t.index.groupAt((number+1)*size)
	s = Span{From: t.index[first].position, To: t.DataBytes}
	if last < len(t.index) {
		s.To = t.index[last].position
	}
	return number, s
}

// Aborted appends to dst the aborted transactions that may have a record in [from, to), by the offset
// of their markers, as a read_committed fetch lists them.
func (t *Tail) Aborted(dst []producer.Aborted, from, to record.Offset) []producer.Aborted {
	for a := range t.aborted.Overlapping(from, to) {
		dst = append(dst, a)
	}
	return dst
}
