package cache

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever a chunk file holds, its header is taken whole or not at all.
func FuzzReadHeader(f *testing.F) {
	for _, size := range []int64{0, 1, blockSize, 3*blockSize + 5} {
		k := Key{Object: "c/t/0/x", Chunk: 7}
		buf := make([]byte, fileSize(k, size))
		seal(buf, k, size)
		f.Add(buf)
		f.Add(buf[:len(buf)/2])
	}
	path := filepath.Join(f.TempDir(), "chunk")
	f.Fuzz(func(t *testing.T, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o644))
		file, err := os.Open(path)
		require.NoError(t, err)
		defer file.Close()
		h, err := readHeader(file)
		if err != nil {
			return
		}
		require.EqualValues(t, len(b), fileSize(h.key, h.size))
		require.Len(t, h.sums, int(4*blocks(h.size)))
		p := make([]byte, h.size)
		if h.readChecked(file, p, 0) == nil {
			require.Equal(t, b[h.data:], p)
		}
	})
}
