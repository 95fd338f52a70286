package record

import (
	"fmt"
	"testing"
)

func BenchmarkJudge(b *testing.B) {
	for _, c := range codecs {
		for _, size := range []int{100, 1024} {
			const bytes = 1 << 20
			n := bytes / size
			batch := numbered(c, n, size)
			b.Run(fmt.Sprintf("%s/%dB", c, size), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n * size))
				for b.Loop() {
					if _, err := Judge(batch, produceRules); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
			})
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	for _, c := range codecs {
		const n, size = 10_000, 100
		batch := numbered(c, n, size)
		var scratch Scratch
		b.Run(c.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(n * size)
			for b.Loop() {
				for _, err := range Records(batch, &scratch) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	const n = 1000
	value := make([]byte, 100)
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			b.ReportAllocs()
			builder := NewBuilder(BuilderOptions{})
			var out []byte
			for b.Loop() {
				builder.Reset(BuilderOptions{Codec: c})
				for i := range Offset(n) {
					if err := builder.Append(Record{Offset: i, Value: value}); err != nil {
						b.Fatal(err)
					}
				}
				out = builder.AppendTo(out[:0])
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}
