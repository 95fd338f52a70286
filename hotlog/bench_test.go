package hotlog

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

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

// BenchmarkAppend appends to logs of a data directory in turn, and counts the processor's time besides.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{200, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			logs := benchLogs(b, 16, DefaultConfig())
			batch := batchOf(size)
			req := request(b, batch)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			began := cpuTime(b)
			written := 0
			for i := 0; b.Loop(); i++ {
				if _, err := logs[i%len(logs)].Append(req); err != nil {
					b.Fatal(err)
				}
				// Keep the disk from filling: a benchmark writes for as long as it likes.
				if written += len(batch); written > 2<<30 {
					written = 0
					for _, l := range logs {
						if _, err := l.Free(l.Bounds().End); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.ReportMetric((cpuTime(b)-began).Seconds()/(float64(b.N)*float64(len(batch))/(1<<30)), "cpu-s/GiB")
		})
	}
}

// BenchmarkAppendFlushed syncs each append (flush.messages=1).
func BenchmarkAppendFlushed(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			c := DefaultConfig()
			c.FlushMessages = 1
			l := benchLogs(b, 1, c)[0]
			batch := batchOf(size)
			req := request(b, batch)
			b.SetBytes(int64(len(batch)))
			began := cpuTime(b)
			for b.Loop() {
				if _, err := l.Append(req); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func benchLogs(b *testing.B, n int32, c Config) []*Log {
	d, err := OpenDataDir(DataDirOptions{Path: b.TempDir()})
	require.NoError(b, err)
	logs := make([]*Log, n)
	for i := range n {
		logs[i], err = d.OpenLog(context.Background(), [16]byte{1}, i, Options{Config: c})
		require.NoError(b, err)
	}
	b.Cleanup(func() {
		require.NoError(b, d.CloseLogs(logs))
		require.NoError(b, d.Close())
	})
	return logs
}

// cpuTime is what the process has used so far, in its own code and in the kernel.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
