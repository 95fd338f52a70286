package object

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// keysOf is a run of records in batches of 100; each third of a key's records is a tombstone.
func keysOf(records int, key func(i int) int) *run {
	r := newRun(500)
	var kv [][]byte
	for i := range records {
		value := []byte("value")
		if i%3 == 2 {
			value = nil
		}
		kv = append(kv, fmt.Appendf(nil, "key-%d", key(i)), value)
		if len(kv) == 200 {
			r.keyed(nil, kv...)
			kv = kv[:0]
		}
	}
	return r
}

// digestsOf collects the digests of a run and writes their block.
func digestsOf(t testing.TB, r *run) []byte {
	d := newDigester(&Spec{Base: r.base})
	for rest := r.data; len(rest) > 0; {
		h, err := record.ParseHeader(rest)
		require.NoError(t, err)
		require.NoError(t, d.add(rest[:h.Size()], h))
		rest = rest[h.Size():]
	}
	return d.appendTo(nil)
}

func TestDigestsAreOfTheLastRecordOfEachKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, key := range map[string]func(int) int{
		"few keys":     func(int) int { return rng.IntN(50) },
		"all differ":   func(i int) int { return i },
		"more to come": func(i int) int { return rng.IntN(1 + i/2) },
	} {
		t.Run(name, func(t *testing.T) {
			r := keysOf(3*settleFrom, key)
			want := map[[16]byte]Digest{}
			for rest, scratch := r.data, (record.Scratch{}); len(rest) > 0; {
				h, err := record.ParseHeader(rest)
				require.NoError(t, err)
				for rec, err := range record.Records(rest[:h.Size()], &scratch) {
					require.NoError(t, err)
					sum := sha256.Sum256(rec.Key)
					k := [16]byte(sum[:16])
					want[k] = Digest{Key: k, Delta: uint32(rec.Offset - r.base), Tombstone: rec.Value == nil}
				}
				rest = rest[h.Size():]
			}
			sorted := make([]Digest, 0, len(want))
			for _, d := range want {
				sorted = append(sorted, d)
			}
			slices.SortFunc(sorted, func(a, b Digest) int { return bytes.Compare(a.Key[:], b.Key[:]) })
			got, err := ParseDigests(digestsOf(t, r))
			require.NoError(t, err)
			require.Equal(t, sorted, got)
		})
	}
}

func BenchmarkDigests(b *testing.B) {
	for name, key := range map[string]func(int) int{
		"all differ": func(i int) int { return i },
		"one in ten": func(i int) int { return i % 60_000 },
	} {
		b.Run(name, func(b *testing.B) {
			const records = 600_000
			r := keysOf(records, key)
			b.ReportAllocs()
			for b.Loop() {
				digestsOf(b, r)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
		})
	}
}
