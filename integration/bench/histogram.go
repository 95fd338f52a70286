package main

import (
	"encoding/json"
	"math/bits"
	"time"
)

// subBuckets is how many equal parts each power of two has: values are kept to within 1/128, under 1 %.
const (
	subBits    = 7
	subBuckets = 1 << subBits
)

// latencies is a histogram with a high dynamic range: of nanoseconds, in parts of the powers of two. The zero value is empty.
// Not safe for concurrent use.
type latencies struct {
	counts [64 * subBuckets]int64
	total  int64
	max    time.Duration
}

func (h *latencies) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.total++
	h.max = max(h.max, d)
}

// bucket keeps the highest subBits+1 bits of a value.
func bucket(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)<<subBits | int(v>>shift)&(subBuckets-1)
}

// value is the highest one of a bucket.
func value(bucket int) time.Duration {
	shift, low := bucket>>subBits, uint64(bucket&(subBuckets-1))
	if shift == 0 {
		return time.Duration(low)
	}
	return time.Duration((low|subBuckets+1)<<(shift-1) - 1)
}

// quantile is the least value that a share q of all values does not exceed.
func (h *latencies) quantile(q float64) time.Duration {
	want := int64(q*float64(h.total) + 0.5)
	seen := int64(0)
	for i, n := range h.counts {
		seen += n
		if n > 0 && seen >= want {
			return min(value(i), h.max)
		}
	}
	return h.max
}

// MarshalJSON writes quantiles in milliseconds.
func (h *latencies) MarshalJSON() ([]byte, error) {
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	return json.Marshal(map[string]float64{
		"count": float64(h.total), "p50": ms(h.quantile(0.5)), "p90": ms(h.quantile(0.9)), "p99": ms(h.quantile(0.99)),
		"p99.9": ms(h.quantile(0.999)), "max": ms(h.max),
	})
}
