package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// xerialHeader begins the snappy framing of the Java client: magic, version 1,
// lowest compatible version 1. Java writes and reads it; librdkafka and the Go
// clients read both it and a bare snappy block.
var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

// xerialBlock is the block size in bytes that the Java client uses.
const xerialBlock = 32 << 10

// Compress appends src, compressed, to dst. lz4 is the frame format with
// independent 64 KiB blocks and no content checksum, snappy is xerial's framing,
// both as Kafka's own client writes them. Error: ErrCodec.
func Compress(dst, src []byte, codec Codec) ([]byte, error) {
	if !codec.Known() {
		return dst, fmt.Errorf("%w: %s", ErrCodec, codec)
	}
	return compress(dst, src, codec), nil
}

// compress does it for a codec that exists. Writing to memory cannot fail.
func compress(dst, src []byte, codec Codec) []byte {
	switch codec {
	case CodecGzip:
		return compressStream(&gzipWriters, dst, src)
	case CodecSnappy:
		return compressSnappy(dst, src)
	case CodecLZ4:
		return compressStream(&lz4Writers, dst, src)
	case CodecZstd:
		w := zstdWriters.Get().(*zstd.Encoder)
		defer zstdWriters.Put(w)
		return w.EncodeAll(src, dst)
	}
	return append(dst, src...)
}

// streamWriter is what the gzip and lz4 writers have in common.
type streamWriter interface {
	io.WriteCloser
	Reset(io.Writer)
}

var (
	gzipWriters = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	lz4Writers  = sync.Pool{New: func() any {
		w := lz4.NewWriter(nil)
		if err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false)); err != nil {
			panic(err)
		}
		return w
	}}
	zstdWriters = sync.Pool{New: func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true),
			zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err)
		}
		return w
	}}
)

func compressStream(pool *sync.Pool, dst, src []byte) []byte {
	w := pool.Get().(streamWriter)
	defer pool.Put(w)
	out := bytes.NewBuffer(dst)
	w.Reset(out)
	_, err := w.Write(src)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		panic(fmt.Sprintf("record: compressing into memory: %v", err))
	}
	return out.Bytes()
}

func compressSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialHeader...)
	for len(src) > 0 {
		block := src[:min(len(src), xerialBlock)]
		src = src[len(block):]
		dst = slices.Grow(dst, 4+snappy.MaxEncodedLen(len(block)))
		start := len(dst) + 4
		out := snappy.Encode(dst[start:cap(dst)], block)
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(out)))
		dst = dst[:start+len(out)]
	}
	return dst
}

// Decompress appends src, decompressed, to dst, at most MaxUncompressed bytes.
// Memory grows with what really comes out. Errors: ErrCodec, ErrTooLarge,
// ErrInvalidRecord if src is not a stream of the codec.
func Decompress(dst, src []byte, codec Codec) ([]byte, error) {
	if codec == CodecNone {
		return append(dst, src...), nil
	}
	s, err := openStream(src, codec)
	if err != nil {
		return dst, err
	}
	defer s.release()
	start := len(dst)
	for {
		// Full buffers grow by append's rule; a first guess saves most of the steps.
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(512, min(4*len(src), 1<<20)))
		}
		n, err := s.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst)-start > MaxUncompressed:
			return dst, fmt.Errorf("%w: over %d bytes uncompressed", ErrTooLarge, MaxUncompressed)
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return dst, streamFault(codec, err)
		}
	}
}

func streamFault(codec Codec, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrInvalidRecord, codec, err)
}
