package tiering

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
	"tidemark/tiering/object"
)

// Input is a live object as a compaction or merge reads it: through the bucket, past the cache. It holds
// the object's footer and its aborted transactions. It may be used by one goroutine at a time.
type Input struct {
	t       *Tier
	row     catalog.Segment
	tail    object.Footer
	epochs  record.EpochHistory
	aborted producer.AbortedList
}

// OpenInput reads the tail group of a row's object: one small GET, or none if a reader has it in memory.
// Errors: ErrStorage if the object is lost or damaged, the store's, the context's.
func (t *Tier) OpenInput(ctx context.Context, row catalog.Segment) (*Input, error) {
	if !t.Ready() {
		return nil, errors.New("tiering: the bucket has not been reached yet")
	}
	tail, ok := t.read.tails.TryGet(row.Key)
	if !ok {
		ctx, cancel := context.WithTimeout(ctx, t.o.CallTimeout)
		defer cancel()
		var err error
		if tail, _, err = t.loadTail(ctx, t.rewriteStore, row); err != nil {
			return nil, inputError(row, err)
		}
	}
	return &Input{t: t, row: row, tail: tail.Footer, epochs: tail.Epochs, aborted: tail.Aborted(nil, row.Base, row.Next)}, nil
}

// inputError marks what says that a live object is lost or damaged.
func inputError(row catalog.Segment, err error) error {
	var lost *brokenError
	if errors.As(broken(row, err), &lost) {
		return fmt.Errorf("%w: %w", ErrStorage, lost)
	}
	return err
}

// Aborted lists the aborted transactions that have a record or their marker in the object.
func (in *Input) Aborted() producer.AbortedList { return in.aborted }

// Digests is the number of keys in the digest block; false if the object has no such block.
func (in *Input) Digests() (int64, bool) {
	b, ok := in.tail.Block(object.BlockDigests)
	return (b.Length - object.DigestHeader) / object.DigestSize, ok
}

// State reads epochs and producers at the object's end. Errors as OpenInput.
func (in *Input) State(ctx context.Context) (object.End, error) {
	b, ok := in.tail.ProducerBlock()
	if !ok {
		return object.End{}, inputError(in.row, fmt.Errorf("%w: no producer state", object.ErrFormat))
	}
	raw := make([]byte, b.Length)
	ctx, cancel := context.WithTimeout(ctx, in.t.o.CallTimeout)
	defer cancel()
	if err := in.t.rewriteStore.ReadRange(ctx, in.row.Key, b.Position, raw); err != nil {
		return object.End{}, inputError(in.row, err)
	}
	s, err := in.tail.ParseProducers(raw)
	if err != nil {
		return object.End{}, inputError(in.row, err)
	}
	return object.End{Epochs: in.epochs, Producers: s}, nil
}

// DigestReader gives the digests of an object, by rising key.
type DigestReader struct {
	in    *Input
	block object.Block
	buf   []byte
	rest  []byte // of buf
	at    int64  // in the block, of what is read next
	crc   uint32
	last  [16]byte
	begun bool
	from  [16]byte // keys below are passed over
	part  bool     // not all of the block is read: its checksum tells nothing
}

// ReadDigests begins to read the digest block, buffer bytes with each GET, from the first key on that is not below from.
// Keys are uniform, so where that lies is known but for a little.
func (in *Input) ReadDigests(from [16]byte, buffer int) *DigestReader {
	b, _ := in.tail.Block(object.BlockDigests)
	size := int64(max(buffer, object.DigestSize) / object.DigestSize * object.DigestSize)
	n, _ := in.Digests()
	r := &DigestReader{in: in, block: b, buf: make([]byte, min(size, max(n, 1)*object.DigestSize)+object.DigestHeader), from: from}
	if at := r.about(n); at > 0 {
		r.part, r.at = true, object.DigestHeader+at*object.DigestSize
	}
	return r
}

// about is a digest that in all likelihood lies below the one where reading begins: four standard deviations below the
// place where uniform keys have it.
func (r *DigestReader) about(n int64) int64 {
	place := float64(n) * float64(binary.BigEndian.Uint64(r.from[:])) / math.MaxUint64
	return max(int64(place-4*math.Sqrt(float64(n))-1), 0)
}

// Next returns the next key, the offset of its last committed record, and whether that is a tombstone;
// io.EOF at the end, when the block's checksum was right. Errors as OpenInput.
func (r *DigestReader) Next(ctx context.Context) (key [16]byte, last record.Offset, tombstone bool, err error) {
	if len(r.rest) == 0 {
		if err := r.fill(ctx); err != nil {
			return key, 0, false, err
		}
	}
	d := object.ParseDigest(r.rest)
	r.rest = r.rest[object.DigestSize:]
	if r.part && !r.begun && string(d.Key[:]) > string(r.from[:]) {
		r.part, r.at, r.rest, r.crc = false, 0, nil, 0 // begun too far above: all of it then
		return r.Next(ctx)
	}
	if r.begun && string(d.Key[:]) <= string(r.last[:]) {
		return key, 0, false, inputError(r.in.row, fmt.Errorf("%w: digests do not rise", object.ErrFormat))
	}
	r.last, r.begun = d.Key, true
	if string(d.Key[:]) < string(r.from[:]) {
		return r.Next(ctx)
	}
	return d.Key, r.in.row.Base + record.Offset(d.Delta), d.Tombstone, nil
}

func (r *DigestReader) fill(ctx context.Context) error {
	if r.at >= r.block.Length {
		if r.block.Flags != 0 || r.crc != r.block.CRC && !r.part {
			return inputError(r.in.row, fmt.Errorf("%w: checksum of the digests", object.ErrFormat))
		}
		return io.EOF
	}
	head := 0
	if r.at == 0 {
		head = object.DigestHeader
	}
	window := r.buf[:min(int64(len(r.buf)-object.DigestHeader+head), r.block.Length-r.at)]
	ctx, cancel := context.WithTimeout(ctx, r.in.t.o.CallTimeout)
	defer cancel()
	if err := r.in.t.rewriteStore.ReadRange(ctx, r.in.row.Key, r.block.Position+r.at, window); err != nil {
		return inputError(r.in.row, err)
	}
	r.crc = crc32.Update(r.crc, castagnoli, window)
	r.at += int64(len(window))
	if r.rest = window[head:]; len(r.rest) == 0 {
		return r.fill(ctx)
	}
	if len(r.rest)%object.DigestSize != 0 {
		return inputError(r.in.row, fmt.Errorf("%w: a digest block of %d bytes", object.ErrFormat, r.block.Length))
	}
	return nil
}
