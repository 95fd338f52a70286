package hotlog

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tidemark/record"
)

// batchOf is an uncompressed batch of about size bytes.
func batchOf(size int) []byte {
	b := record.NewBuilder(record.BuilderOptions{})
	for b.UncompressedSize() < size-1100 {
		b.Add(day, nil, make([]byte, 1024))
	}
	b.Add(day, nil, make([]byte, 90))
	return b.Build()
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			l := open(b, testOptions(b))
			batch := batchOf(size)
			req := request(b, batch)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			written := 0
			for b.Loop() {
				if _, err := l.Append(req); err != nil {
					b.Fatal(err)
				}
				// Keep the disk from filling: a benchmark writes for as long as it likes.
				if written += len(batch); written > 256<<20 {
					written = 0
					if _, err := l.Free(l.Bounds().End); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	l := open(b, testOptions(b))
	req := request(b, batchOf(16<<10))
	for range 1000 {
		_, err := l.Append(req)
		require.NoError(b, err)
	}
	end := l.Bounds().End
	for name, from := range map[string]record.Offset{"tail": end - 1, "middle": end/2 + 3} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := l.Read(from, end, 1<<20, true)
				if err != nil || s.Len == 0 {
					b.Fatal(err)
				}
				s.Release()
			}
		})
	}
}
