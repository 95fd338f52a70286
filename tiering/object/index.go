package object

import (
	"encoding/binary"
	"fmt"
	"sort"

	"tidemark/record"
)

// IndexEvery is the distance in bytes of data between two index entries; each names the first batch
// at or after it. 64 MiB of data have 1 024 entries of 24 bytes.
const IndexEvery = 64 << 10

// entry begins a group: the batches from it up to the next entry.
type entry struct {
	base     record.Offset
	position int64
	// maxTime is the largest timestamp of the group's records, record.NoTimestamp if there are none.
	maxTime int64
}

// index finds the group of an offset or a time.
type index []entry

// note adds a batch at a position; timestamps of batches without records are not noted.
func (x *index) note(base record.Offset, position, maxTime int64) {
	if n := len(*x); n == 0 || position-(*x)[n-1].position >= IndexEvery {
		*x = append(*x, entry{base: base, position: position, maxTime: record.NoTimestamp})
	}
	last := &(*x)[len(*x)-1]
	last.maxTime = max(last.maxTime, maxTime)
}

// groupOf is the group that holds offset o: the last one that begins at or below it, 0 if none does.
func (x index) groupOf(o record.Offset) int {
	return max(sort.Search(len(x), func(i int) bool { return x[i].base > o })-1, 0)
}

// groupAt is the first group that begins at or after a position, len(x) if none does.
func (x index) groupAt(position int64) int {
	return sort.Search(len(x), func(i int) bool { return x[i].position >= position })
}

const (
	offsetEntry = 16
	timeEntry   = 8
)

// appendTimes writes the time index: a count, then each group's largest timestamp.
func (x index) appendTimes(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(x)))
	for _, e := range x {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.maxTime))
	}
	return dst
}

// appendOffsets writes the offset index: a count, then base offset and position of each group.
func (x index) appendOffsets(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(x)))
	for _, e := range x {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.base))
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.position))
	}
	return dst
}

// parseIndex joins the two blocks. Bases and positions must rise from the object's base and 0.
func parseIndex(offsets, times []byte, f *Footer) (index, error) {
	n, err := entryCount(offsets, offsetEntry)
	if err != nil {
		return nil, err
	}
	if m, err := entryCount(times, timeEntry); err != nil || m != n {
		return nil, fmt.Errorf("%w: %d offset and %d time entries", ErrFormat, n, m)
	}
	x := make(index, n)
	for i := range x {
		e := entry{
			base:     record.Offset(binary.BigEndian.Uint64(offsets[4+offsetEntry*i:])),
			position: int64(binary.BigEndian.Uint64(offsets[4+offsetEntry*i+8:])),
			maxTime:  int64(binary.BigEndian.Uint64(times[4+timeEntry*i:])),
		}
		ok := e.base >= f.Base && e.base < f.Next && e.position >= 0 && e.position < f.DataBytes
		if i > 0 {
			ok = ok && e.base > x[i-1].base && e.position > x[i-1].position
		} else {
			ok = ok && e.position == 0
		}
		if !ok {
			return nil, fmt.Errorf("%w: index entry %d: offset %d at %d", ErrFormat, i, e.base, e.position)
		}
		x[i] = e
	}
	if n == 0 {
		return nil, fmt.Errorf("%w: no index for %d bytes", ErrFormat, f.DataBytes)
	}
	return x, nil
}

func entryCount(block []byte, size int) (int, error) {
	if len(block) < 4 || (len(block)-4)%size != 0 || int64(binary.BigEndian.Uint32(block)) != int64((len(block)-4)/size) {
		return 0, fmt.Errorf("%w: index of %d bytes", ErrFormat, len(block))
	}
	return (len(block) - 4) / size, nil
}
