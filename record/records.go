package record

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// Record is one record of a batch. Key and Value nil mean null. The slices alias
// the batch or the Scratch that it was decompressed into.
type Record struct {
	Offset    Offset
	Timestamp int64 // milliseconds, NoTimestamp if the producer set none
	Key       []byte
	Value     []byte
	Headers   Headers
}

// HeaderField is one header of a record. Value nil means null.
type HeaderField struct {
	Key   []byte
	Value []byte
}

// Headers are a record's headers, still encoded; the zero value holds none.
type Headers struct {
	count int
	raw   []byte
}

// NewHeaders encodes fields.
func NewHeaders(fields ...HeaderField) Headers {
	h := Headers{count: len(fields)}
	for _, f := range fields {
		h.raw = binary.AppendVarint(h.raw, int64(len(f.Key)))
		h.raw = append(h.raw, f.Key...)
		h.raw = appendBytes(h.raw, f.Value)
	}
	return h
}

// Len is the number of headers.
func (h Headers) Len() int { return h.count }

// All yields the headers in their order; the slices alias the record.
func (h Headers) All() iter.Seq[HeaderField] {
	return func(yield func(HeaderField) bool) {
		p := parser{b: h.raw}
		for range h.count {
			f := HeaderField{Key: p.bytes(), Value: p.bytes()}
			if p.fault != "" || !yield(f) {
				return
			}
		}
	}
}

// Scratch is memory that Records decompresses into, reused from batch to batch.
// The zero value is ready. Not for concurrent use.
type Scratch struct{ buf []byte }

// Records yields the records of one whole batch in order, decompressing it where
// needed into scratch (nil: fresh memory), at most MaxUncompressed bytes. Records
// alias batch and scratch, so they live until scratch is used again. The CRC is
// not checked. A fault is yielded as the last pair, with a zero Record. Errors:
// ErrTruncated, ErrMagic, ErrCorrupt, ErrCodec, ErrInvalidRecord, ErrTooLarge.
func Records(batch []byte, scratch *Scratch) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		h, body, err := bodyOf(batch, scratch)
		if err != nil {
			yield(Record{}, err)
			return
		}
		p := parser{b: body}
		for i := range h.Count {
			r, fault := p.record(&h)
			if fault != "" {
				yield(Record{}, fmt.Errorf("%w: batch at %d, record %d: %s", ErrInvalidRecord, h.BaseOffset, i, fault))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
		if len(p.b) > 0 {
			yield(Record{}, fmt.Errorf("%w: batch at %d: %d bytes after record %d",
				ErrInvalidRecord, h.BaseOffset, len(p.b), h.Count))
		}
	}
}

// bodyOf returns the header and the uncompressed records.
func bodyOf(batch []byte, scratch *Scratch) (Header, []byte, error) {
	h, err := ParseHeader(batch)
	if err != nil {
		return h, nil, err
	}
	if h.Size() > len(batch) {
		return h, nil, fmt.Errorf("%w: %d of %d bytes", ErrTruncated, len(batch), h.Size())
	}
	body := batch[HeaderSize:h.Size()]
	// Compaction leaves empty batches with no stream at all behind the header.
	if h.Codec() == CodecNone || h.Count == 0 && len(body) == 0 {
		return h, body, nil
	}
	if scratch == nil {
		scratch = &Scratch{}
	}
	out, err := Decompress(scratch.buf[:0], body, h.Codec())
	if err != nil {
		return h, nil, fmt.Errorf("batch at %d: %w", h.BaseOffset, err)
	}
	scratch.buf = out
	return h, out, nil
}

// parser walks bytes that are all there. After a fault every read yields zero.
type parser struct {
	b     []byte
	fault string
}

// record reads the next record:
//
//	varint length, int8 attributes, varlong timestamp delta, varint offset delta,
//	varint key length (-1 null), key, varint value length, value,
//	varint header count, per header: varint key length, key, varint value length, value
func (p *parser) record(h *Header) (Record, string) {
	n := p.length()
	if p.fault != "" {
		return Record{}, p.fault
	}
	rec := parser{b: p.b[:n]}
	p.b = p.b[n:]
	if n == 0 {
		return Record{}, faultShort
	}
	rec.b = rec.b[1:] // attributes, unused in format 2
	ts, delta := rec.varint(), rec.varint()
	r := Record{Timestamp: h.BaseTimestamp + ts, Offset: h.BaseOffset + Offset(delta)}
	if h.LogAppendTime() {
		r.Timestamp = h.MaxTimestamp
	}
	r.Key, r.Value = rec.bytes(), rec.bytes()
	count := rec.varint()
	if rec.fault != "" {
		return Record{}, rec.fault
	}
	if delta < 0 || delta > math.MaxInt32 {
		return Record{}, "offset delta out of range"
	}
	if count < 0 || count > int64(len(rec.b)) {
		return Record{}, "header count out of range"
	}
	r.Headers = Headers{count: int(count), raw: rec.b}
	for range count {
		if rec.bytes() == nil && rec.fault == "" {
			rec.fault = "null header key"
		}
		rec.bytes()
	}
	if rec.fault == "" && len(rec.b) > 0 {
		rec.fault = faultLong
	}
	return r, rec.fault
}

const (
	faultShort  = "fields run past the end"
	faultLong   = "bytes left after the last field"
	faultVarint = "malformed varint"
	faultLength = "negative length"
)

func (p *parser) varint() int64 {
	if p.fault != "" {
		return 0
	}
	v, n := binary.Varint(p.b)
	if n <= 0 {
		p.fault = faultVarint
		if n == 0 {
			p.fault = faultShort
		}
		return 0
	}
	p.b = p.b[n:]
	return v
}

// length reads a length that must fit into what is left.
func (p *parser) length() int {
	n := p.varint()
	switch {
	case p.fault != "":
		return 0
	case n < 0:
		p.fault = faultLength
		return 0
	case n > int64(len(p.b)):
		p.fault = faultShort
		return 0
	}
	return int(n)
}

// bytes reads a length and as many bytes; length -1 is nil, and 0 is not nil.
func (p *parser) bytes() []byte {
	if p.fault == "" && len(p.b) > 0 && p.b[0] == 1 { // zigzag of -1
		p.b = p.b[1:]
		return nil
	}
	n := p.length()
	if p.fault != "" {
		return nil
	}
	b := p.b[:n:n]
	p.b = p.b[n:]
	return b
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}
