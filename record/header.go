package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Offset is a record's place in its partition, from 0. NoOffset means unknown.
type Offset int64

// Epoch is a partition's leader epoch. NoEpoch means unknown.
type Epoch int32

const (
	// NoOffset is Kafka's undefined offset.
	NoOffset Offset = -1
	// NoEpoch is Kafka's undefined epoch.
	NoEpoch Epoch = -1
	// NoTimestamp marks a record whose producer set no time.
	NoTimestamp int64 = -1
	// NoProducerID marks a batch of a producer that is not idempotent.
	NoProducerID int64 = -1
	// NoSequence is the base sequence of such a batch and of control batches.
	NoSequence int32 = -1

	// HeaderSize is the size in bytes of a batch without records.
	HeaderSize = 61
	// MaxBatchSize guards every allocation and scan that trusts a length field.
	// Topics bound batches far below it by max.message.bytes.
	MaxBatchSize = 256 << 20
	// MaxUncompressed bounds what one batch may decompress to.
	MaxUncompressed = 1 << 30

	sizePrefix = 12 // base offset and the length field itself
	crcStart   = 21 // first byte under the CRC
	magicV2    = 2
	// minMessage is the smallest length field of any format (magic 0, no key, no
	// value); below it the bytes are no message of whatever format.
	minMessage = 14
)

// Byte positions inside the header.
const (
	posLength        = 8
	posEpoch         = 12
	posMagic         = 16
	posCRC           = 17
	posAttributes    = 21
	posLastDelta     = 23
	posBaseTimestamp = 27
	posMaxTimestamp  = 35
	posProducerID    = 43
	posProducerEpoch = 51
	posBaseSequence  = 53
	posCount         = 57
)

// Attribute bits.
const (
	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// Header is the fixed part of a batch. Timestamps are milliseconds since the
// Unix epoch.
type Header struct {
	BaseOffset      Offset
	Length          int32 // bytes after the length field
	LeaderEpoch     Epoch
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      int64
	ProducerEpoch   int16
	BaseSequence    int32
	Count           int32
}

// ParseHeader reads the header at the front of b, which may end anywhere after
// it. It checks what makes the header safe to compute with (format, length,
// offsets that do not overflow), not the CRC. Errors: ErrTruncated, ErrMagic,
// ErrCorrupt, ErrTooLarge.
func ParseHeader(b []byte) (Header, error) {
	h, err := readHeader(b)
	if err != nil {
		return h, err
	}
	if fault := h.rangeFault(); fault != "" {
		return h, fmt.Errorf("%w: %s: base %d, last delta %d, count %d",
			ErrCorrupt, fault, h.BaseOffset, h.LastOffsetDelta, h.Count)
	}
	return h, nil
}

// readHeader decodes and checks format and length only.
func readHeader(b []byte) (Header, error) {
	// The place of length and magic is the same in all formats, so an old or a
	// zeroed message is told apart even where 61 bytes are not there.
	if len(b) > posMagic {
		length := int32(binary.BigEndian.Uint32(b[posLength:]))
		switch magic := int8(b[posMagic]); {
		case length < minMessage:
			return Header{}, fmt.Errorf("%w: length field %d", ErrCorrupt, length)
		case magic != magicV2:
			return Header{Magic: magic}, fmt.Errorf("%w: magic %d", ErrMagic, magic)
		case length < HeaderSize-sizePrefix:
			return Header{}, fmt.Errorf("%w: length field %d", ErrCorrupt, length)
		case length > MaxBatchSize-sizePrefix:
			return Header{}, fmt.Errorf("%w: %w: length field %d", ErrCorrupt, ErrTooLarge, length)
		}
	}
	if len(b) < HeaderSize {
		return Header{}, fmt.Errorf("%w: %d of %d header bytes", ErrTruncated, len(b), HeaderSize)
	}
	be := binary.BigEndian
	return Header{
		BaseOffset:      Offset(be.Uint64(b)),
		Length:          int32(be.Uint32(b[posLength:])),
		LeaderEpoch:     Epoch(be.Uint32(b[posEpoch:])),
		Magic:           int8(b[posMagic]),
		CRC:             be.Uint32(b[posCRC:]),
		Attributes:      int16(be.Uint16(b[posAttributes:])),
		LastOffsetDelta: int32(be.Uint32(b[posLastDelta:])),
		BaseTimestamp:   int64(be.Uint64(b[posBaseTimestamp:])),
		MaxTimestamp:    int64(be.Uint64(b[posMaxTimestamp:])),
		ProducerID:      int64(be.Uint64(b[posProducerID:])),
		ProducerEpoch:   int16(be.Uint16(b[posProducerEpoch:])),
		BaseSequence:    int32(be.Uint32(b[posBaseSequence:])),
		Count:           int32(be.Uint32(b[posCount:])),
	}, nil
}

// rangeFault names the first way in which the header's numbers cannot be true of
// any batch; "" if there is none.
func (h Header) rangeFault() string {
	switch {
	case h.BaseOffset < 0:
		return "negative base offset"
	case h.LastOffsetDelta < 0:
		return "negative last offset delta"
	case h.BaseOffset > math.MaxInt64-1-Offset(h.LastOffsetDelta):
		return "offsets overflow"
	case h.Count < 0:
		return "negative record count"
	case int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return "more records than offsets"
	}
	return ""
}

// appendTo writes the header as it lies at the front of a batch.
func (h Header) appendTo(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(dst, uint64(h.BaseOffset))
	dst = be.AppendUint32(dst, uint32(h.Length))
	dst = be.AppendUint32(dst, uint32(h.LeaderEpoch))
	dst = append(dst, byte(h.Magic))
	dst = be.AppendUint32(dst, h.CRC)
	dst = be.AppendUint16(dst, uint16(h.Attributes))
	dst = be.AppendUint32(dst, uint32(h.LastOffsetDelta))
	dst = be.AppendUint64(dst, uint64(h.BaseTimestamp))
	dst = be.AppendUint64(dst, uint64(h.MaxTimestamp))
	dst = be.AppendUint64(dst, uint64(h.ProducerID))
	dst = be.AppendUint16(dst, uint16(h.ProducerEpoch))
	dst = be.AppendUint32(dst, uint32(h.BaseSequence))
	return be.AppendUint32(dst, uint32(h.Count))
}

// Size is the whole batch's size in bytes, header included.
func (h Header) Size() int { return sizePrefix + int(h.Length) }

// LastOffset is the offset of the batch's last record, or of the one that was
// last before compaction.
func (h Header) LastOffset() Offset { return h.BaseOffset + Offset(h.LastOffsetDelta) }

// NextOffset is the first offset after the batch.
func (h Header) NextOffset() Offset { return h.LastOffset() + 1 }

// Codec is how the records are compressed. Values above CodecZstd do not exist.
func (h Header) Codec() Codec { return Codec(h.Attributes & attrCodec) }

// LogAppendTime reports that MaxTimestamp, set by the broker, is the time of
// every record (KIP-32).
func (h Header) LogAppendTime() bool { return h.Attributes&attrAppendTime != 0 }

// IsTransactional reports that the batch belongs to a transaction.
func (h Header) IsTransactional() bool { return h.Attributes&attrTransactional != 0 }

// IsControl reports that the records are markers, not data.
func (h Header) IsControl() bool { return h.Attributes&attrControl != 0 }

// HasProducer reports an idempotent producer.
func (h Header) HasProducer() bool { return h.ProducerID >= 0 }

// HasSequence reports that the batch counts in its producer's sequence; control
// batches do not.
func (h Header) HasSequence() bool { return h.ProducerID >= 0 && h.BaseSequence >= 0 }

// LastSequence is the sequence number of the last record, NoSequence if there is
// none. Numbers wrap from 2^31-1 to 0 (F17).
func (h Header) LastSequence() int32 {
	if h.BaseSequence < 0 {
		return NoSequence
	}
	return AddSequence(h.BaseSequence, h.LastOffsetDelta)
}

// AddSequence is the sequence number n records after seq, both not negative.
func AddSequence(seq, n int32) int32 {
	return int32((int64(seq) + int64(n)) & math.MaxInt32)
}

// DeleteHorizon is the time in milliseconds from which tombstones and markers of
// the batch may go, if compaction has set one (KIP-534).
func (h Header) DeleteHorizon() (int64, bool) {
	return h.BaseTimestamp, h.Attributes&attrDeleteHorizon != 0
}
