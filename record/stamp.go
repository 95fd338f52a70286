package record

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Split returns the first whole batch of b and the bytes after it. It trusts the
// length field only as far as ParseHeader does. Errors: those of ParseHeader;
// ErrTruncated if b holds less than the whole batch (an empty b too).
func Split(b []byte) (batch, rest []byte, err error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, b, err
	}
	if h.Size() > len(b) {
		return nil, b, fmt.Errorf("%w: %d of %d bytes", ErrTruncated, len(b), h.Size())
	}
	return b[:h.Size():h.Size()], b[h.Size():], nil
}

// CheckCRC compares the CRC-32C of one whole batch with the one that its header
// names. Errors: ErrTruncated, ErrCorrupt.
func CheckCRC(batch []byte) error {
	if len(batch) < HeaderSize {
		return fmt.Errorf("%w: %d of %d header bytes", ErrTruncated, len(batch), HeaderSize)
	}
	want := binary.BigEndian.Uint32(batch[posCRC:])
	if got := crc32.Checksum(batch[crcStart:], castagnoli); got != want {
		return fmt.Errorf("%w: CRC %08x, computed %08x", ErrCorrupt, want, got)
	}
	return nil
}

// StampOffset writes base offset and leader epoch in place. They lie outside the
// CRC, so nothing else changes.
func StampOffset(batch []byte, base Offset, epoch Epoch) {
	binary.BigEndian.PutUint64(batch, uint64(base))
	binary.BigEndian.PutUint32(batch[posEpoch:], uint32(epoch))
}

// StampAppendTime makes ts (milliseconds) the time of every record of the batch:
// sets the append-time bit and the max timestamp, and computes the CRC again
// (KIP-32).
func StampAppendTime(batch []byte, ts int64) {
	batch[posAttributes+1] |= attrAppendTime
	StampMaxTimestamp(batch, ts)
}

// StampMaxTimestamp writes the max timestamp and computes the CRC again. A leader
// does it where Judge's truth differs from what the client claimed, as Kafka's
// LogValidator does.
func StampMaxTimestamp(batch []byte, ts int64) {
	binary.BigEndian.PutUint64(batch[posMaxTimestamp:], uint64(ts))
	stampCRC(batch)
}

func stampCRC(batch []byte) {
	binary.BigEndian.PutUint32(batch[posCRC:], crc32.Checksum(batch[crcStart:], castagnoli))
}
