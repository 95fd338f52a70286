package wire

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkPieces is the price of a fetch answer of 16 partitions: a few header bytes, then a range of a file, 16 times.
// cpu-ns/op is both ends' of the connection, since what one saves the other may pay.
func BenchmarkPieces(b *testing.B) {
	path := filepath.Join(b.TempDir(), "segment")
	require.NoError(b, os.WriteFile(path, make([]byte, 16<<20), 0o600))
	f, err := os.Open(path)
	require.NoError(b, err)
	defer f.Close()
	for _, size := range []int64{1 << 10, 4 << 10, 16 << 10, 31 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			defer l.Close()
			done := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err == nil {
					_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
				}
				done <- err
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			require.NoError(b, err)
			w := &Writer{conn: c, timeout: time.Minute, reads: openGate{}}
			head := make([]byte, 42)
			b.SetBytes(16 * (size + 42))
			before := cpuTime()
			for b.Loop() {
				for i := range int64(16) {
					_, _ = w.Write(head)
					if err := w.SendFile(f, i<<20, size); err != nil {
						b.Fatal(err)
					}
				}
			}
			_ = w.flush()
			_ = c.Close()
			require.NoError(b, <-done)
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
