package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A quantile is never below the sorted values' own, and less than 1 % above it.
func TestQuantilesStandWithinOnePercent(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h latencies
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(random.Int64N(1 << random.IntN(40)))
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[int(q*float64(len(all))+0.5)-1]
		got := h.quantile(q)
		if got < exact || float64(got) > float64(exact)*1.01+1 {
			t.Errorf("quantile %v: %v, the sorted values say %v", q, got, exact)
		}
	}
}

// Each bucket's highest value lies in it, and the next nanosecond in the next one.
func TestBucketsMeet(t *testing.T) {
	for i := range 40 * subBuckets {
		if v := uint64(value(i)); bucket(v) != i || bucket(v+1) != i+1 {
			t.Fatalf("bucket %d: its highest value %d is in %d, the next in %d", i, v, bucket(v), bucket(v+1))
		}
	}
}
