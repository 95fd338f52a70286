package producer

import (
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"sort"

	"tidemark/record"
)

// Aborted is one aborted transaction of a partition: its records lie in
// [First, Last], Last being its marker. LastStable is the last stable offset
// (exclusive) just after the marker: no transaction that ended later began below.
type Aborted struct {
	ProducerID  int64
	First, Last record.Offset
	LastStable  record.Offset
}

// AbortedList is a partition's aborted transactions by the offsets of their
// markers, rising.
type AbortedList []Aborted

// Add inserts a at its place; one that is there already stays as it is, so that a
// walk may be repeated.
func (l *AbortedList) Add(a Aborted) {
	i := l.from(a.Last)
	if i < len(*l) && (*l)[i].Last == a.Last {
		return
	}
	*l = slices.Insert(*l, i, a)
}

// from is the index of the first transaction whose marker lies at or after offset.
func (l AbortedList) from(offset record.Offset) int {
	return sort.Search(len(l), func(i int) bool { return l[i].Last >= offset })
}

// Overlapping yields the transactions that may have a record in [from, to), as a
// fetch of that range lists them.
func (l AbortedList) Overlapping(from, to record.Offset) iter.Seq[Aborted] {
	return func(yield func(Aborted) bool) {
		if from >= to {
			return
		}
		for _, a := range l[l.from(from):] {
			if a.First < to && !yield(a) {
				return
			}
			if a.LastStable >= to {
				return
			}
		}
	}
}

// TruncateTo drops the transactions whose marker lies at or after end.
func (l *AbortedList) TruncateTo(end record.Offset) { *l = slices.Clip((*l)[:l.from(end)]) }

// TrimBelow drops the transactions that ended below start.
func (l *AbortedList) TrimBelow(start record.Offset) { *l = slices.Clone((*l)[l.from(start):]) }

// abortedSize: producer id, first, last, last stable, int64 each.
const abortedSize = 32

// AppendTo appends the entry's 32 bytes to dst: producer id, first, last and last
// stable offset, int64 big-endian.
func (a Aborted) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.ProducerID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.First))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.Last))
	return binary.BigEndian.AppendUint64(dst, uint64(a.LastStable))
}

// AppendTo appends the list's bytes to dst: a count (uint32), then the entries.
func (l AbortedList) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(l)))
	for _, a := range l {
		dst = a.AppendTo(dst)
	}
	return dst
}

// DecodeAborted reads what AbortedList.AppendTo wrote and returns the bytes after
// it. Error: ErrSnapshot.
func DecodeAborted(b []byte) (AbortedList, []byte, error) {
	if len(b) < 4 {
		return nil, b, fmt.Errorf("%w: aborted list of %d bytes", ErrSnapshot, len(b))
	}
	count := int64(binary.BigEndian.Uint32(b))
	if rest := int64(len(b) - 4); count*abortedSize > rest {
		return nil, b, fmt.Errorf("%w: %d aborted transactions in %d bytes", ErrSnapshot, count, rest)
	}
	b = b[4:]
	var l AbortedList
	last := record.NoOffset
	for range count {
		a := decodeAborted(b)
		if a.First < 0 || a.Last < a.First || a.Last <= last {
			return nil, b, fmt.Errorf("%w: aborted transaction [%d, %d] after marker %d", ErrSnapshot, a.First, a.Last, last)
		}
		l, last, b = append(l, a), a.Last, b[abortedSize:]
	}
	return l, b, nil
}

func decodeAborted(b []byte) Aborted {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[8*i:])) }
	return Aborted{
		ProducerID: at(0), First: record.Offset(at(1)),
		Last: record.Offset(at(2)), LastStable: record.Offset(at(3)),
	}
}
