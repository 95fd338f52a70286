package cleaning

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// One pass over objects of 16 MiB, of records of 1 KiB, or of 100 bytes as it says. In "all dirty" most records are
// superseded and every object is rewritten; in "one dirty" all objects but one are clean and lose nothing worth a rewrite.
func BenchmarkPass(b *testing.B) {
	for _, c := range []struct {
		name                 string
		objects, keys, value int
		cleanFirst           bool
		samples              int
	}{
		{"all dirty", 8, 20_000, 1000, false, 0},
		{"one dirty", 8, 1 << 30, 1000, true, 0},
		{"one dirty of 100 B", 12, 1 << 30, 80, true, 0},
		{"one dirty of 100 B, all digests read", 12, 1 << 30, 80, true, 1 << 30},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				i := newSea(b).island(b)
				i.policy.ObjectBytes, i.policy.DeleteRetentionMs = 64<<20, 1<<40
				i.memory, i.samples = 64<<20, c.samples
				i.live()
				i.fill(c.objects-1, c.keys, c.value)
				if c.cleanFirst {
					require.NoError(b, i.pass())
				}
				i.policy.MinDirtyRatio = 0.01
				i.fill(1, c.keys, c.value)
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

// fill uploads objects of about 16 MiB, values of size bytes, with random keys of a range.
func (i *island) fill(objects, keys, size int) {
	rng := rand.New(rand.NewPCG(1, uint64(i.next)))
	value := make([]byte, size)
	for n := range value {
		value[n] = byte(rng.Uint32())
	}
	for range objects {
		for range (16 << 20) / 16 / (size + 24) {
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
