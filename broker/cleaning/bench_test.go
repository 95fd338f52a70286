package cleaning

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// One pass over 128 MiB of records of 1 KiB in objects of 16 MiB. In "all dirty" most records are superseded and every
// object is rewritten; in "one dirty" seven objects are clean and lose nothing worth a rewrite.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		name          string
		objects, keys int
		cleanFirst    bool
	}{
		{"all dirty", 8, 20_000, false},
		{"one dirty", 8, 1 << 30, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				i := newSea(b).island(b)
				i.policy.ObjectBytes, i.policy.DeleteRetentionMs = 64<<20, 1<<40
				i.memory = 64 << 20
				i.live()
				i.fill(c.objects-1, c.keys)
				if c.cleanFirst {
					require.NoError(b, i.pass())
				}
				i.policy.MinDirtyRatio = 0.01
				i.fill(1, c.keys)
				var topic int64
				for _, r := range i.rows() {
					topic += r.Bytes
				}
				i.disk.read, i.disk.put = 0, 0
				b.SetBytes(topic)
				b.StartTimer()
				require.NoError(b, i.pass())
				b.ReportMetric(float64(i.disk.read)/float64(topic), "read/topic")
				b.ReportMetric(float64(i.disk.put)/float64(topic), "written/topic")
				for _, r := range i.rows() {
					require.NotZero(b, r.CleanSince)
				}
			}
		})
	}
}

// fill uploads objects of 16 MiB with random keys of a range.
func (i *island) fill(objects, keys int) {
	rng := rand.New(rand.NewPCG(1, uint64(i.next)))
	value := make([]byte, 1000)
	for n := range value {
		value[n] = byte(rng.Uint32())
	}
	for range objects {
		for range 16 << 20 / (16 << 10) {
			batch := record.NewBuilder(record.BuilderOptions{BaseOffset: i.next})
			for range 16 {
				batch.Add(i.now, fmt.Appendf(nil, "key-%016d", rng.IntN(keys)), value)
				i.written = append(i.written, written{})
			}
			i.append(batch.Build())
		}
		i.object()
	}
}
