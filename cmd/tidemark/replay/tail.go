package replay

import (
	"hash/maphash"

	"tidemark/record"
)

// tail is what a source partition's producer has copied to a target partition behind the checkpoint, by the target's own
// account. A nil one is empty.
type tail struct {
	// records is their number, by sequence numbers.
	records int64
	// sums are of those that are there, in order. Fewer than records if the target was compacted meanwhile: then
	// only the number counts.
	sums []uint64
}

var seed = maphash.MakeSeed()

// sumOf tells a record by key and value; a target may set timestamps of its own.
func sumOf(r record.Record) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, b := range [][]byte{r.Key, r.Value} {
		if b == nil {
			_ = h.WriteByte(0)
			continue
		}
		_ = h.WriteByte(1)
		maphash.WriteComparable(&h, len(b))
		_, _ = h.Write(b)
	}
	return h.Sum64()
}

// trimmed drops sums that the checkpoint has counted already.
func (t tail) trimmed() *tail {
	if more := int64(len(t.sums)) - t.records; more > 0 {
		t.sums = t.sums[more:]
	}
	return &t
}

// take asks whether the next record of the source is a copied one. n of the tail are behind the reader then: more than
// one where the source was compacted meanwhile and does not show all of them any more, all of them if it is a new record.
func (t *tail) take(r record.Record) (n int64, is bool) {
	if t == nil || t.records == 0 {
		return 0, false
	}
	if int64(len(t.sums)) < t.records {
		t.records--
		return 1, true
	}
	sum := sumOf(r)
	for i, s := range t.sums {
		if s == sum {
			t.sums, t.records = t.sums[i+1:], t.records-int64(i+1)
			return int64(i + 1), true
		}
	}
	n = t.records
	*t = tail{}
	return n, false
}
