package wire

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever is written and however large the ranges of files between: the peer gets the bytes in order, and none is counted
// twice.
func TestBytesAndFileRangesArriveInOrder(t *testing.T) {
	const size = 1 << 20
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i * 31 >> 7)
	}
	path := filepath.Join(t.TempDir(), "segment")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	rapid.Check(t, func(t *rapid.T) {
		w, got := pipeTo(t)
		var want bytes.Buffer
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n := rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 3*gatherUpTo)).Draw(t, "n")
			at := rapid.IntRange(0, size-n).Draw(t, "at")
			want.Write(content[at : at+n])
			if rapid.Bool().Draw(t, "file") {
				require.NoError(t, w.SendFile(f, int64(at), int64(n)))
				continue
			}
			_, err := w.Write(content[at : at+n])
			require.NoError(t, err)
		}
		require.NoError(t, w.flush())
		require.NoError(t, w.conn.Close())
		require.True(t, bytes.Equal(want.Bytes(), <-got), "other bytes than were written")
		require.EqualValues(t, want.Len(), w.accepted)
	})
}

// A file that ends early is an error, whichever way its bytes take.
func TestFileThatEndsEarly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "segment")
	require.NoError(t, os.WriteFile(path, make([]byte, 1000), 0o600))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	for _, n := range []int64{10, 2 * gatherUpTo} {
		w, _ := pipeTo(t)
		require.ErrorIs(t, w.SendFile(f, 995, n), io.ErrUnexpectedEOF)
		require.NoError(t, w.conn.Close())
	}
}

// pipeTo is a writer to a socket, and what its peer has read when it is closed.
func pipeTo(t require.TestingT) (*Writer, <-chan []byte) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got := make(chan []byte, 1)
	go func() {
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			got <- nil
			return
		}
		b, _ := io.ReadAll(c)
		_ = c.Close()
		got <- b
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	return &Writer{conn: c, timeout: time.Minute, reads: openGate{}}, got
}
