package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"tidemark/record"
)

// Offset index, Kafka's format, 8 bytes an entry, big-endian:
//
//	0  int32  last offset of a batch, less the segment's base
//	4  int32  position of that batch's first byte
//
// Time index, 12 bytes an entry:
//
//	0  int64  largest timestamp so far, ms
//	8  int32  last offset of the batch that has it, less the base
const (
	OffsetEntrySize = 8
	TimeEntrySize   = 12
)

// ErrIndex: bytes that cannot be the index of this segment; it is built again.
var ErrIndex = errors.New("segment: damaged index")

// OffsetEntry says where the batch with the last offset base+Rel begins.
type OffsetEntry struct{ Rel, Pos int32 }

// TimeEntry says that up to the batch that ends at base+Rel no timestamp is above
// Timestamp, and that this batch has it.
type TimeEntry struct {
	Timestamp int64
	Rel       int32
}

// Index is the sparse index of one segment in memory. The zero value is that of
// an empty one.
type Index struct {
	Base    record.Offset
	Offsets []OffsetEntry
	Times   []TimeEntry
	since   int64 // bytes since the last entry
}

// Peak is the largest timestamp of a run of batches, and the last offset of the
// first batch that has it.
type Peak struct {
	Timestamp int64
	At        record.Offset
}

// NoPeak is the peak of nothing.
func NoPeak(base record.Offset) Peak { return Peak{record.NoTimestamp, base} }

// With returns the peak of the run and one more batch.
func (p Peak) With(timestamp int64, last record.Offset) Peak {
	if timestamp > p.Timestamp {
		return Peak{timestamp, last}
	}
	return p
}

// Add follows one batch at pos; every interval bytes it makes an entry, as
// Kafka's LogSegment does. peak includes the batch.
func (x *Index) Add(h record.Header, pos int64, interval int, peak Peak) {
	if x.since > int64(interval) {
		x.Offsets = append(x.Offsets, OffsetEntry{Rel: int32(h.LastOffset() - x.Base), Pos: int32(pos)})
		x.addTime(peak)
		x.since = 0
	}
	x.since += int64(h.Size())
}

// Finish makes the last time entry of a segment that is sealed.
func (x *Index) Finish(peak Peak) { x.addTime(peak) }

func (x *Index) addTime(peak Peak) {
	last := record.NoTimestamp
	if n := len(x.Times); n > 0 {
		last = x.Times[n-1].Timestamp
	}
	if peak.Timestamp > last {
		x.Times = append(x.Times, TimeEntry{Timestamp: peak.Timestamp, Rel: int32(peak.At - x.Base)})
	}
}

// Bytes is the size of the larger of the two index files.
func (x *Index) Bytes() int {
	return max(len(x.Offsets)*OffsetEntrySize, len(x.Times)*TimeEntrySize)
}

// Floor is a position at or before the first batch whose last offset is at least
// offset, at a batch's first byte; 0 if the index says nothing.
func (x *Index) Floor(offset record.Offset) int64 {
	rel := int64(offset - x.Base)
	i := sort.Search(len(x.Offsets), func(i int) bool { return int64(x.Offsets[i].Rel) > rel })
	if i == 0 {
		return 0
	}
	return int64(x.Offsets[i-1].Pos)
}

// FloorPos is the largest indexed position at or below pos; 0 if there is none.
func (x *Index) FloorPos(pos int64) int64 {
	i := sort.Search(len(x.Offsets), func(i int) bool { return int64(x.Offsets[i].Pos) > pos })
	if i == 0 {
		return 0
	}
	return int64(x.Offsets[i-1].Pos)
}

// FloorTime is an offset before which every timestamp is below ts.
func (x *Index) FloorTime(ts int64) record.Offset {
	i := sort.Search(len(x.Times), func(i int) bool { return x.Times[i].Timestamp >= ts })
	if i == 0 {
		return x.Base
	}
	return x.Base + record.Offset(x.Times[i-1].Rel)
}

// TruncateTo drops what points at or beyond pos, where the batch of offset end
// began, and forgets time entries from end on.
func (x *Index) TruncateTo(end record.Offset, pos int64) {
	i := sort.Search(len(x.Offsets), func(i int) bool { return int64(x.Offsets[i].Pos) >= pos })
	x.Offsets = x.Offsets[:i:i]
	rel := int64(end - x.Base)
	j := 0
	for j < len(x.Times) && int64(x.Times[j].Rel) < rel {
		j++
	}
	x.Times = x.Times[:j:j]
	x.since = pos
	if i > 0 {
		x.since = pos - int64(x.Offsets[i-1].Pos)
	}
}

// AppendOffsets appends entries as they lie in the file.
func AppendOffsets(dst []byte, entries []OffsetEntry) []byte {
	for _, e := range entries {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Rel))
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Pos))
	}
	return dst
}

// AppendTimes appends entries as they lie in the file.
func AppendTimes(dst []byte, entries []TimeEntry) []byte {
	for _, e := range entries {
		dst = binary.BigEndian.AppendUint64(dst, uint64(e.Timestamp))
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Rel))
	}
	return dst
}

// DecodeIndex reads both files of a segment that holds size bytes of offsets
// [base, next). Error: ErrIndex, if anything in them cannot be true.
func DecodeIndex(offsets, times []byte, base, next record.Offset, size int64) (*Index, error) {
	if len(offsets)%OffsetEntrySize != 0 || len(times)%TimeEntrySize != 0 {
		return nil, fmt.Errorf("%w: %d and %d bytes", ErrIndex, len(offsets), len(times))
	}
	x := &Index{Base: base, since: size}
	span := int64(next - base)
	if n := len(offsets) / OffsetEntrySize; n > 0 {
		x.Offsets = make([]OffsetEntry, n)
	}
	last := OffsetEntry{-1, 0}
	for i := range x.Offsets {
		b := offsets[i*OffsetEntrySize:]
		e := OffsetEntry{int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))}
		if e.Rel <= last.Rel || e.Pos <= last.Pos || int64(e.Rel) >= span || int64(e.Pos) >= size {
			return nil, fmt.Errorf("%w: entry %d (%d at %d) after (%d at %d) in %d bytes of %d offsets",
				ErrIndex, i, e.Rel, e.Pos, last.Rel, last.Pos, size, span)
		}
		x.Offsets[i], last = e, e
		x.since = size - int64(e.Pos)
	}
	return x, x.decodeTimes(times, span)
}

func (x *Index) decodeTimes(times []byte, span int64) error {
	if n := len(times) / TimeEntrySize; n > 0 {
		x.Times = make([]TimeEntry, n)
	}
	last := TimeEntry{record.NoTimestamp, -1}
	for i := range x.Times {
		b := times[i*TimeEntrySize:]
		e := TimeEntry{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
		if e.Timestamp <= last.Timestamp || e.Rel <= last.Rel || int64(e.Rel) >= span {
			return fmt.Errorf("%w: time entry %d (%d at %d) after (%d at %d) of %d offsets",
				ErrIndex, i, e.Timestamp, e.Rel, last.Timestamp, last.Rel, span)
		}
		x.Times[i], last = e, e
	}
	return nil
}
