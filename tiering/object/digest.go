package object

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"tidemark/record"
	"tidemark/record/producer"
)

// Digest is the last committed record of a key in an object. The key is told by the first 128 bits of
// its SHA-256: nobody can craft a key that stands for another's (H31).
type Digest struct {
	Key       [16]byte
	Delta     uint32 // of the record's offset to the object's base, < 2^31
	Tombstone bool
}

const (
	// DigestHeader is the size of the count that a digest block begins with.
	DigestHeader = 4
	// DigestSize is the size of one digest: a reader may take the block in pieces.
	DigestSize = 20

	tombstoneBit = 1 << 31
)

// ParseDigest reads one digest, the first DigestSize bytes of raw.
func ParseDigest(raw []byte) Digest {
	v := binary.BigEndian.Uint32(raw[16:DigestSize])
	return Digest{Key: [16]byte(raw), Delta: v &^ tombstoneBit, Tombstone: v&tombstoneBit != 0}
}

// digester collects digests batch by batch.
type digester struct {
	last    map[[16]byte]uint32
	scratch record.Scratch
	base    record.Offset
	aborted producer.AbortedList
}

func newDigester(s *Spec) *digester {
	return &digester{last: make(map[[16]byte]uint32), base: s.Base, aborted: s.Aborted}
}

// add notes the keys of a batch; markers and aborted records are not keyed records (R15). A record
// without a key, left from before the topic was compacted, is passed over.
func (d *digester) add(batch []byte, h record.Header) error {
	if h.IsControl() || h.IsTransactional() && d.isAborted(h) {
		return nil
	}
	for r, err := range record.Records(batch, &d.scratch) {
		if err != nil {
			return err
		}
		if r.Key == nil {
			continue
		}
		sum := sha256.Sum256(r.Key)
		delta := uint32(r.Offset - d.base)
		if r.Value == nil {
			delta |= tombstoneBit
		}
		d.last[[16]byte(sum[:16])] = delta
	}
	return nil
}

func (d *digester) isAborted(h record.Header) bool {
	for a := range d.aborted.Overlapping(h.BaseOffset, h.NextOffset()) {
		if a.ProducerID == h.ProducerID {
			return true
		}
	}
	return false
}

// appendTo writes the block: a count, then 20 bytes per key, sorted.
func (d *digester) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(d.last)))
	begin := len(dst)
	keys := make([][16]byte, 0, len(d.last))
	for k := range d.last {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) })
	dst = slices.Grow(dst, len(keys)*DigestSize)[:begin]
	for _, k := range keys {
		dst = append(dst, k[:]...)
		dst = binary.BigEndian.AppendUint32(dst, d.last[k])
	}
	return dst
}

// ParseDigests reads a digest block. Keys must rise. Error: ErrFormat.
func ParseDigests(block []byte) ([]Digest, error) {
	n, err := entryCount(block, DigestSize)
	if err != nil {
		return nil, err
	}
	out := make([]Digest, n)
	for i := range out {
		out[i] = ParseDigest(block[DigestHeader+i*DigestSize:])
		if i > 0 && bytes.Compare(out[i-1].Key[:], out[i].Key[:]) >= 0 {
			return nil, fmt.Errorf("%w: digest %d does not rise", ErrFormat, i)
		}
	}
	return out, nil
}
