package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Producer identifies an idempotent producer in a batch that is built.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32
}

// BuilderOptions are a batch's header as its builder needs it. The zero value
// builds an uncompressed batch of a plain producer at offset 0.
type BuilderOptions struct {
	Codec       Codec
	BaseOffset  Offset
	LeaderEpoch Epoch
	Producer    *Producer // nil: not idempotent

	Transactional bool
	Control       bool

	// LogAppendTime makes MaxTimestamp the time of every record.
	LogAppendTime bool
	// MaxTimestamp counts for LogAppendTime and for a batch without records;
	// else the largest timestamp of the records does.
	MaxTimestamp int64
	// DeleteHorizon, if not nil, is KIP-534's time and becomes the base timestamp.
	DeleteHorizon *int64
	// LastOffsetDelta is where the batch ends even if its last record lies below:
	// the header of a compacted batch keeps its range (H9).
	LastOffsetDelta int32
}

// OptionsOf describes a batch with the header h, so that a builder makes one with
// the same offsets, producer, sequence and times out of the records that remain.
func OptionsOf(h Header) BuilderOptions {
	o := BuilderOptions{
		Codec:           h.Codec(),
		BaseOffset:      h.BaseOffset,
		LeaderEpoch:     h.LeaderEpoch,
		Transactional:   h.IsTransactional(),
		Control:         h.IsControl(),
		LogAppendTime:   h.LogAppendTime(),
		MaxTimestamp:    h.MaxTimestamp,
		LastOffsetDelta: h.LastOffsetDelta,
		Producer:        &Producer{ID: h.ProducerID, Epoch: h.ProducerEpoch, BaseSequence: h.BaseSequence},
	}
	if t, ok := h.DeleteHorizon(); ok {
		o.DeleteHorizon = &t
	}
	return o
}

// Builder makes one batch at a time. Not for concurrent use.
type Builder struct {
	opts    BuilderOptions
	body    []byte
	record  []byte
	count   int32
	last    int64 // last offset delta, -1 before the first record
	baseTS  int64
	maxTime int64
}

// NewBuilder returns a builder of a batch as opts describe.
func NewBuilder(opts BuilderOptions) *Builder {
	b := &Builder{}
	b.Reset(opts)
	return b
}

// Reset begins a new batch in the memory of the old one.
func (b *Builder) Reset(opts BuilderOptions) {
	*b = Builder{opts: opts, body: b.body[:0], record: b.record[:0], last: -1, maxTime: NoTimestamp}
	if opts.DeleteHorizon != nil {
		b.baseTS = *opts.DeleteHorizon
	}
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// UncompressedSize is the size in bytes of the batch if it were not compressed.
func (b *Builder) UncompressedSize() int { return HeaderSize + len(b.body) }

// Append adds r at its own offset, which must lie above the record before it and
// at most 2^31-1 above the base offset. Error: ErrOffsetRange, and nothing is
// added.
func (b *Builder) Append(r Record) error {
	delta := int64(r.Offset) - int64(b.opts.BaseOffset)
	if r.Offset < b.opts.BaseOffset || delta <= b.last || delta > math.MaxInt32 {
		return fmt.Errorf("%w: %d after delta %d of base %d", ErrOffsetRange, r.Offset, b.last, b.opts.BaseOffset)
	}
	if b.count == 0 && b.opts.DeleteHorizon == nil {
		b.baseTS = r.Timestamp
	}
	rec := append(b.record[:0], 0) // attributes
	rec = binary.AppendVarint(rec, r.Timestamp-b.baseTS)
	rec = binary.AppendVarint(rec, delta)
	rec = appendBytes(rec, r.Key)
	rec = appendBytes(rec, r.Value)
	rec = binary.AppendVarint(rec, int64(r.Headers.count))
	rec = append(rec, r.Headers.raw...)
	b.body = binary.AppendVarint(b.body, int64(len(rec)))
	b.body = append(b.body, rec...)
	b.record = rec
	b.count++
	b.last = delta
	b.maxTime = max(b.maxTime, r.Timestamp)
	return nil
}

// Add appends a record at the next offset. It panics after 2^31 records.
func (b *Builder) Add(timestamp int64, key, value []byte, headers ...HeaderField) {
	err := b.Append(Record{
		Offset:    b.opts.BaseOffset + Offset(b.last) + 1,
		Timestamp: timestamp, Key: key, Value: value, Headers: NewHeaders(headers...),
	})
	if err != nil {
		panic(err)
	}
}

// Build returns the batch, with its CRC. Without records it is an empty batch as
// Kafka's cleaner leaves it: only a header, no codec.
func (b *Builder) Build() []byte { return b.AppendTo(nil) }

// AppendTo appends what Build returns to dst.
func (b *Builder) AppendTo(dst []byte) []byte {
	start := len(dst)
	h := b.header()
	dst = h.appendTo(dst)
	if b.count > 0 {
		dst = compress(dst, b.body, h.Codec())
	}
	batch := dst[start:]
	binary.BigEndian.PutUint32(batch[posLength:], uint32(len(batch)-sizePrefix))
	stampCRC(batch)
	return dst
}

func (b *Builder) header() Header {
	o := b.opts
	h := Header{
		BaseOffset: o.BaseOffset, LeaderEpoch: o.LeaderEpoch, Magic: magicV2,
		LastOffsetDelta: max(o.LastOffsetDelta, int32(max(b.last, 0))),
		BaseTimestamp:   b.baseTS, MaxTimestamp: b.maxTime,
		ProducerID: NoProducerID, ProducerEpoch: -1, BaseSequence: NoSequence,
		Count: b.count,
	}
	if b.count > 0 {
		h.Attributes |= int16(o.Codec) & attrCodec
	}
	if o.LogAppendTime || b.count == 0 {
		h.MaxTimestamp = o.MaxTimestamp
	}
	if b.count == 0 && o.DeleteHorizon == nil {
		h.BaseTimestamp = NoTimestamp
	}
	if o.Producer != nil {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence = o.Producer.ID, o.Producer.Epoch, o.Producer.BaseSequence
	}
	for _, bit := range []struct {
		on   bool
		mask int16
	}{
		{o.LogAppendTime, attrAppendTime}, {o.Transactional, attrTransactional},
		{o.Control, attrControl}, {o.DeleteHorizon != nil, attrDeleteHorizon},
	} {
		if bit.on {
			h.Attributes |= bit.mask
		}
	}
	return h
}
