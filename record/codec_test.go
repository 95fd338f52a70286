package record

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
)

func TestCompressAppends(t *testing.T) {
	for _, c := range codecs {
		for _, n := range []int{0, 1, xerialBlock, xerialBlock + 1, 300_000} {
			src := bytes.Repeat([]byte("tide"), n/4+1)[:n]
			packed, err := Compress([]byte("front"), src, c)
			require.NoError(t, err)
			require.Equal(t, "front", string(packed[:5]))
			out, err := Decompress([]byte("begin"), packed[5:], c)
			require.NoError(t, err, "%s %d", c, n)
			require.Equal(t, "begin", string(out[:5]))
			require.True(t, bytes.Equal(src, out[5:]), "%s %d", c, n)
		}
	}
}

// TestSnappyFramings: bare blocks (franz-go, sarama's old versions) and xerial's
// framing (Java), concatenated too; S2's extension of the format is refused.
func TestSnappyFramings(t *testing.T) {
	src := bytes.Repeat([]byte("abcdefg-"), 20_000)
	framed, _ := Compress(nil, src, CodecSnappy)
	for name, packed := range map[string][]byte{
		"bare":   snappy.Encode(nil, src),
		"xerial": framed,
	} {
		out, err := Decompress(nil, packed, CodecSnappy)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(src, out), name)
	}
	out, err := Decompress(nil, append(bytes.Clone(framed), framed...), CodecSnappy)
	require.NoError(t, err)
	require.Len(t, out, 2*len(src))

	for name, packed := range map[string][]byte{
		"empty":         {},
		"header cut":    framed[:12],
		"length cut":    framed[:18],
		"block cut":     framed[:len(framed)-1],
		"claims 4 GiB":  append(binary.AppendUvarint(nil, 1<<32-1), 0, 'x'),
		"S2 repeats":    s2.EncodeBest(nil, mixed(100_000)),
		"length claims": append(bytes.Clone(xerialHeader), 0xff, 0xff, 0xff, 0xff, 1),
	} {
		_, err := Decompress(nil, packed, CodecSnappy)
		require.ErrorIs(t, err, ErrInvalidRecord, name)
	}
}

// TestLZ4Frames: what the Java client cannot read is refused.
func TestLZ4Frames(t *testing.T) {
	src := bytes.Repeat([]byte("abcdefg-"), 30_000)
	good, _ := Compress(nil, src, CodecLZ4)
	linked := bytes.Clone(good)
	linked[4] &^= lz4Independent
	var legacy bytes.Buffer
	w := lz4.NewWriter(&legacy)
	require.NoError(t, w.Apply(lz4.LegacyOption(true)))
	_, err := w.Write(src)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, packed := range map[string][]byte{
		"linked blocks": linked,
		"legacy":        legacy.Bytes(),
		"bytes after":   append(bytes.Clone(good), 0),
		"two frames":    append(bytes.Clone(good), good...),
		"cut":           good[:len(good)-1],
		"empty":         {},
	} {
		_, err := Decompress(nil, packed, CodecLZ4)
		require.ErrorIs(t, err, ErrInvalidRecord, name)
	}
	checksummed := new(bytes.Buffer)
	w = lz4.NewWriter(checksummed)
	require.NoError(t, w.Apply(lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.BlockSizeOption(lz4.Block4Mb)))
	_, err = w.Write(src)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	out, err := Decompress(nil, checksummed.Bytes(), CodecLZ4)
	require.NoError(t, err)
	require.True(t, bytes.Equal(src, out))
}

// mixed makes bytes that repeat at one distance with small changes, which S2
// encodes by repeat offsets.
func mixed(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		if i < 1000 || rand.IntN(20) == 0 {
			b[i] = byte(rand.Uint32())
		} else {
			b[i] = b[i-1000]
		}
	}
	return b
}

// TestZipBomb: little input that would come to gigabytes is walked in a window,
// and stopped at a guard.
func TestZipBomb(t *testing.T) {
	// One record of half a GiB of zeros, within the guard: judged, never held.
	const size = 512 << 20
	inner := []byte{0, 0, 0, 1}
	inner = binary.AppendVarint(inner, size)
	rec := binary.AppendVarint(nil, int64(len(inner)+size+1))
	rec = append(rec, inner...)
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	require.NoError(t, err)
	_, err = w.Write(rec)
	require.NoError(t, err)
	zeros := make([]byte, 1<<20)
	for range size/len(zeros) - 1 {
		_, err = w.Write(zeros)
		require.NoError(t, err)
	}
	_, err = w.Write(zeros)
	require.NoError(t, err)
	_, err = w.Write([]byte{0})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	bomb := withBody(CodecZstd, 1, out.Bytes())
	require.Less(t, len(bomb), 100_000)

	before := heapTotal()
	s, err := Judge(bomb, produceRules)
	require.NoError(t, err)
	require.Greater(t, s.UncompressedBytes, int64(size))
	require.Less(t, heapTotal()-before, uint64(32<<20), "bytes allocated for a body of %d", size)

	twice := append(bytes.Clone(out.Bytes()), out.Bytes()...)
	_, err = Judge(withBody(CodecZstd, 2, append(twice, out.Bytes()...)), publishRules)
	require.ErrorIs(t, err, ErrInvalidRecord)
}

func heapTotal() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestZstdWideWindow: the highest levels ask for windows of up to 128 MiB for
// however little content; memory follows the content.
func TestZstdWideWindow(t *testing.T) {
	src := body(t, numbered(CodecNone, 100, 100))
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(128<<20), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	half := len(src) / 2
	_, err = w.Write(src[:half])
	require.NoError(t, err)
	require.NoError(t, w.Flush()) // so that the frame cannot know its size
	_, err = w.Write(src[half:])
	require.NoError(t, err)
	require.NoError(t, w.Close())
	var h zstd.Header
	require.NoError(t, h.Decode(out.Bytes()))
	require.Greater(t, h.WindowSize, uint64(maxWindow))

	batch := withBody(CodecZstd, 100, out.Bytes())
	before := heapTotal()
	s, err := Judge(batch, produceRules)
	require.NoError(t, err)
	require.Equal(t, 100, s.Records)
	require.Len(t, readAll(t, batch), 100)
	require.Less(t, heapTotal()-before, uint64(4<<20))
}
