package segment

import (
	"encoding/binary"
	"fmt"

	"tidemark/record"
	"tidemark/record/producer"
)

// Transaction index, Kafka's format, 34 bytes an entry, big-endian: int16 version
// (0), int64 producer id, first offset, marker's offset, last stable offset.
const TxnEntrySize = 34

// AppendTxns appends entries as they lie in the file.
func AppendTxns(dst []byte, entries []producer.Aborted) []byte {
	be := binary.BigEndian
	for _, a := range entries {
		dst = be.AppendUint16(dst, 0)
		dst = be.AppendUint64(dst, uint64(a.ProducerID))
		dst = be.AppendUint64(dst, uint64(a.First))
		dst = be.AppendUint64(dst, uint64(a.Last))
		dst = be.AppendUint64(dst, uint64(a.LastStable))
	}
	return dst
}

// DecodeTxns reads the transaction index of a segment of offsets [base, next),
// appending to list. Error: ErrIndex.
func DecodeTxns(list producer.AbortedList, b []byte, base, next record.Offset) (producer.AbortedList, error) {
	if len(b)%TxnEntrySize != 0 {
		return list, fmt.Errorf("%w: transaction index of %d bytes", ErrIndex, len(b))
	}
	last := base - 1
	for ; len(b) > 0; b = b[TxnEntrySize:] {
		at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[2+8*i:])) }
		a := producer.Aborted{
			ProducerID: at(0), First: record.Offset(at(1)),
			Last: record.Offset(at(2)), LastStable: record.Offset(at(3)),
		}
		if binary.BigEndian.Uint16(b) != 0 || a.First < 0 || a.First > a.Last || a.Last <= last || a.Last >= next {
			return list, fmt.Errorf("%w: aborted [%d, %d] after %d in [%d, %d)", ErrIndex, a.First, a.Last, last, base, next)
		}
		list.Add(a)
		last = a.Last
	}
	return list, nil
}
