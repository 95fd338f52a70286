package record

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
)

// EpochStart says that a leader epoch begins at an offset.
type EpochStart struct {
	Epoch Epoch
	Start Offset
}

// EpochHistory is which leader epoch wrote which offsets of a partition, since
// its start. Epochs and starts both rise strictly. A method that changes it makes
// a new slice, so a copy of the value is a snapshot. The zero value is empty.
type EpochHistory struct{ entries []EpochStart }

// Entries returns the history, oldest first. The caller must not change it.
func (e EpochHistory) Entries() []EpochStart { return e.entries }

// Latest is the newest entry.
func (e EpochHistory) Latest() (EpochStart, bool) {
	if len(e.entries) == 0 {
		return EpochStart{NoEpoch, NoOffset}, false
	}
	return e.entries[len(e.entries)-1], true
}

// Assign notes that epoch wrote the offsets from start on, until told otherwise.
// An epoch that is not newer than the latest, and one below 0, is ignored. Newer
// epochs replace entries at or after start: those epochs wrote nothing that is
// still there. True if the history changed.
func (e *EpochHistory) Assign(epoch Epoch, start Offset) bool {
	if last, ok := e.Latest(); epoch < 0 || start < 0 || ok && epoch <= last.Epoch {
		return false
	}
	keep := e.before(start)
	e.entries = append(slices.Clip(e.entries[:keep]), EpochStart{epoch, start})
	return true
}

// before is the number of entries that begin below offset.
func (e EpochHistory) before(offset Offset) int {
	return sort.Search(len(e.entries), func(i int) bool { return e.entries[i].Start >= offset })
}

// EpochAt is the epoch that wrote offset, NoEpoch if the history begins later.
func (e EpochHistory) EpochAt(offset Offset) Epoch {
	if i := e.before(offset + 1); i > 0 {
		return e.entries[i-1].Epoch
	}
	return NoEpoch
}

// EndOffset answers OffsetForLeaderEpoch (KIP-101, KIP-279): the largest known
// epoch not above the asked one, and where it ends; the latest ends at leo. An
// epoch before all known ones ends where the first begins and is answered as
// itself; one above all known ones is answered (NoEpoch, NoOffset), as in Kafka.
func (e EpochHistory) EndOffset(epoch Epoch, leo Offset) (Epoch, Offset) {
	last, ok := e.Latest()
	if !ok || epoch < 0 || epoch > last.Epoch {
		return NoEpoch, NoOffset
	}
	if epoch == last.Epoch {
		return epoch, leo
	}
	higher := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].Epoch > epoch })
	if higher == 0 {
		return epoch, e.entries[0].Start
	}
	return e.entries[higher-1].Epoch, e.entries[higher].Start
}

// TruncateTo drops what begins at or after end: the log was cut there.
func (e *EpochHistory) TruncateTo(end Offset) {
	e.entries = slices.Clip(e.entries[:e.before(end)])
}

// TrimBelow makes the history begin at start; the epoch in force there stays.
func (e *EpochHistory) TrimBelow(start Offset) {
	i := e.before(start + 1)
	if i == 0 || e.entries[i-1].Start == start && i == 1 {
		return
	}
	kept := slices.Clone(e.entries[i-1:])
	kept[0].Start = start
	e.entries = kept
}

// EqualOn reports that both histories name the same epoch for every offset of
// [from, to).
func (e EpochHistory) EqualOn(other EpochHistory, from, to Offset) bool {
	if from >= to {
		return true
	}
	if e.EpochAt(from) != other.EpochAt(from) {
		return false
	}
	a := e.entries[e.before(from+1):e.before(to)]
	b := other.entries[other.before(from+1):other.before(to)]
	return slices.Equal(a, b)
}

// epochEntrySize: epoch int32, start int64.
const epochEntrySize = 12

// AppendTo appends the history's bytes to dst: a count (uint32), then epoch
// (int32) and start offset (int64) of each entry, all big-endian.
func (e EpochHistory) AppendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.entries)))
	for _, x := range e.entries {
		dst = binary.BigEndian.AppendUint32(dst, uint32(x.Epoch))
		dst = binary.BigEndian.AppendUint64(dst, uint64(x.Start))
	}
	return dst
}

// DecodeEpochHistory reads what AppendTo wrote and returns the bytes after it.
// Errors: ErrTruncated; ErrCorrupt if the entries do not rise.
func DecodeEpochHistory(b []byte) (EpochHistory, []byte, error) {
	if len(b) < 4 {
		return EpochHistory{}, b, fmt.Errorf("%w: epoch history of %d bytes", ErrTruncated, len(b))
	}
	count := int64(binary.BigEndian.Uint32(b))
	b = b[4:]
	if count*epochEntrySize > int64(len(b)) {
		return EpochHistory{}, b, fmt.Errorf("%w: %d epochs in %d bytes", ErrTruncated, count, len(b))
	}
	var e EpochHistory
	if count > 0 {
		e.entries = make([]EpochStart, count)
	}
	last := EpochStart{NoEpoch, NoOffset}
	for i := range e.entries {
		x := EpochStart{Epoch(binary.BigEndian.Uint32(b)), Offset(binary.BigEndian.Uint64(b[4:]))}
		if x.Epoch <= last.Epoch || x.Start <= last.Start {
			return EpochHistory{}, b, fmt.Errorf("%w: epoch %d at %d after %d at %d",
				ErrCorrupt, x.Epoch, x.Start, last.Epoch, last.Start)
		}
		e.entries[i], last = x, x
		b = b[epochEntrySize:]
	}
	return e, b, nil
}
