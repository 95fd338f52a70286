package object

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
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
	found    []found
	spare    []found // for sorting
	distinct int     // of found, when it was last settled
	scratch  record.Scratch
	base     record.Offset
	aborted  producer.AbortedList
}

// found is one record's digest, whose key is two numbers of the same order.
type found struct {
	high, low uint64
	delta     uint32 // with tombstoneBit
}

// settleFrom is how many records are noted before the older ones of their keys are first dropped: 1.5 MiB.
const settleFrom = 1 << 16

func newDigester(s *Spec) *digester {
	return &digester{base: s.Base, aborted: s.Aborted}
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
		if len(d.found) >= max(settleFrom, 2*d.distinct) {
			d.settle()
		}
		d.found = append(d.found, found{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]), delta})
	}
	return nil
}

// settle sorts what was found and keeps the last record of each key. It is cheaper than a map that is sorted at the end.
func (d *digester) settle() {
	d.sort()
	kept := d.found[:0]
	for i, f := range d.found {
		if i+1 < len(d.found) && f.high == d.found[i+1].high && f.low == d.found[i+1].low {
			continue
		}
		kept = append(kept, f)
	}
	d.found, d.distinct = kept, len(kept)
}

// sort orders by key, then by offset. The keys are hashes, so their first bits spread them evenly over places of some eight
// each, which is most of the work; keys that somebody has chosen to fall together are sorted like any others.
func (d *digester) sort() {
	shift := 64 - bits.Len(uint(len(d.found)/8))
	ends := make([]int, 1<<(64-shift))
	for _, f := range d.found {
		ends[f.high>>shift]++
	}
	sum := 0
	for i, n := range ends {
		ends[i], sum = sum, sum+n
	}
	d.spare = slices.Grow(d.spare[:0], len(d.found))[:len(d.found)]
	for _, f := range d.found {
		d.spare[ends[f.high>>shift]] = f
		ends[f.high>>shift]++
	}
	d.found, d.spare = d.spare, d.found
	begin := 0
	for _, end := range ends {
		slices.SortFunc(d.found[begin:end], found.compare)
		begin = end
	}
}

func (a found) compare(b found) int {
	if a.high != b.high {
		return cmp.Compare(a.high, b.high)
	}
	if a.low != b.low {
		return cmp.Compare(a.low, b.low)
	}
	return cmp.Compare(a.delta&^tombstoneBit, b.delta&^tombstoneBit)
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
	d.settle()
	dst = slices.Grow(dst, DigestHeader+len(d.found)*DigestSize)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(d.found)))
	for _, f := range d.found {
		dst = binary.BigEndian.AppendUint64(dst, f.high)
		dst = binary.BigEndian.AppendUint64(dst, f.low)
		dst = binary.BigEndian.AppendUint32(dst, f.delta)
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
