package wire

import (
	"bufio"
	"bytes"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What stands in the socket counts as sent: a frame that has come whole is read in one step (P1, R20).
func TestAFrameThatHasComeIsReadInOneStep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the socket's queue is asked on Linux only")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	nc, err := l.Accept()
	require.NoError(t, err)
	defer nc.Close()
	require.Zero(t, queued(nc))

	frame := bytes.Repeat([]byte("0123456789abcdef"), 3<<10)
	_, err = peer.Write(frame)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return queued(nc) == len(frame) }, time.Minute, time.Millisecond)
	c := &Conn{nc: nc, opts: &Options{ReadTimeout: time.Minute}}
	b := NewBudget(1 << 20)
	held := b.hold()
	buf, err := c.readSteps(t.Context(), bufio.NewReaderSize(nc, readAhead), held, len(frame))
	require.NoError(t, err)
	require.True(t, bytes.Equal(frame, *buf))
	require.EqualValues(t, len(frame), b.used)
	held.release()
	require.Zero(t, b.used)
}

// BenchmarkReadFrame is what a frame of a megabyte costs that the socket brings as fast as it can: cpu-ns/op is of both
// ends.
func BenchmarkReadFrame(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b, err)
	defer peer.Close()
	nc, err := l.Accept()
	require.NoError(b, err)
	defer nc.Close()
	const size = 1<<20 + 100
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for frame := make([]byte, size); err == nil; {
			_, err = peer.Write(frame)
		}
	}()
	c := &Conn{nc: nc, opts: &Options{ReadTimeout: time.Minute}}
	budget := NewBudget(64 << 20)
	br := bufio.NewReaderSize(nc, readAhead)
	b.SetBytes(size)
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		held := budget.hold()
		buf, err := c.readSteps(b.Context(), br, held, size)
		require.NoError(b, err)
		putBuffer(buf)
		held.release()
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
	_ = nc.Close()
	<-sent
}
