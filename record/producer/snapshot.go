package producer

import (
	"encoding/binary"
	"fmt"

	"tidemark/record"
)

// snapshotVersion 1, all big-endian:
//
//	uint8  version
//	int64  end offset
//	uint32 producers, longest idle first; each:
//	       int64 id, int16 epoch, int32 coordinator epoch, int64 first offset of
//	       the open transaction (-1), int64 append time, uint8 batches; each:
//	              int64 last offset, int64 max timestamp, int32 last sequence,
//	              int32 last offset delta
//
// Magic and checksum are the container's.
const (
	snapshotVersion = 1
	snapshotHeader  = 13
	entrySize       = 31
	batchSize       = 24
)

// AppendTo appends the state's bytes to dst. Ended transactions that Settle has
// not been told of are left out: a snapshot is taken of, or read into, a log whose
// markers are decided.
func (s *State) AppendTo(dst []byte) []byte {
	be := binary.BigEndian
	dst = append(dst, snapshotVersion)
	dst = be.AppendUint64(dst, uint64(s.end))
	dst = be.AppendUint32(dst, uint32(len(s.byID)))
	for i := s.oldest; i != none; i = s.entries[i].next {
		e := &s.entries[i]
		dst = be.AppendUint64(dst, uint64(e.id))
		dst = be.AppendUint16(dst, uint16(e.epoch))
		dst = be.AppendUint32(dst, uint32(e.coordinator))
		dst = be.AppendUint64(dst, uint64(e.txnFirst))
		dst = be.AppendUint64(dst, uint64(e.at))
		dst = append(dst, e.count)
		for _, b := range e.batches[:e.count] {
			dst = be.AppendUint64(dst, uint64(b.lastOffset))
			dst = be.AppendUint64(dst, uint64(b.timestamp))
			dst = be.AppendUint32(dst, uint32(b.lastSeq))
			dst = be.AppendUint32(dst, uint32(b.delta))
		}
	}
	return dst
}

// Decode reads what AppendTo wrote, all of b, into a state for at most
// maxProducers (0: DefaultMaxProducers). A snapshot may hold more, of another bound
// or with many open transactions; the next new producer makes the longest idle go,
// here as in the state that was encoded. Error: ErrSnapshot.
func Decode(b []byte, maxProducers int) (*State, error) {
	if len(b) < snapshotHeader || b[0] != snapshotVersion {
		return nil, fmt.Errorf("%w: %d bytes, version %v", ErrSnapshot, len(b), b[:min(1, len(b))])
	}
	be := binary.BigEndian
	s := New(record.Offset(be.Uint64(b[1:])), maxProducers)
	count := be.Uint32(b[9:])
	b = b[snapshotHeader:]
	if s.end < 0 || int64(count)*entrySize > int64(len(b)) {
		return nil, fmt.Errorf("%w: end %d, %d producers in %d bytes", ErrSnapshot, s.end, count, len(b))
	}
	for i := range count {
		rest, ok := s.decodeEntry(b)
		if !ok {
			return nil, fmt.Errorf("%w: producer %d of %d", ErrSnapshot, i, count)
		}
		b = rest
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after %d producers", ErrSnapshot, len(b), count)
	}
	return s, nil
}

func (s *State) decodeEntry(b []byte) ([]byte, bool) {
	be := binary.BigEndian
	if len(b) < entrySize {
		return b, false
	}
	e := entry{
		id:          int64(be.Uint64(b)),
		epoch:       int16(be.Uint16(b[8:])),
		coordinator: int32(be.Uint32(b[10:])),
		txnFirst:    record.Offset(be.Uint64(b[14:])),
		at:          int64(be.Uint64(b[22:])),
		count:       b[30],
	}
	b = b[entrySize:]
	if e.id < 0 || s.find(e.id) != nil || e.txnFirst < noTxn || e.txnFirst >= s.end ||
		e.count > window || len(b) < int(e.count)*batchSize {
		return b, false
	}
	for i := range e.count {
		x := batch{
			lastOffset: record.Offset(be.Uint64(b)),
			timestamp:  int64(be.Uint64(b[8:])),
			lastSeq:    int32(be.Uint32(b[16:])),
			delta:      int32(be.Uint32(b[20:])),
		}
		if x.lastSeq < 0 || x.delta < 0 || x.base() < 0 || x.lastOffset >= s.end {
			return b, false
		}
		e.batches[i] = x
		b = b[batchSize:]
	}
	i := s.insert(e.id)
	s.entries[i] = e
	s.link(i)
	if e.txnFirst != noTxn {
		s.begin(&s.entries[i], e.txnFirst)
	}
	return b, true
}
