package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// stream decompresses one body step by step. What it holds in memory is bounded
// by its codec: 32 KiB for gzip, a block of at most 4 MiB for lz4, a window of
// maxWindow for zstd (wider ones: see zstdStream), a block for snappy, which
// cannot be larger than maxSnappyRatio times its input.
type stream interface {
	io.Reader
	// open begins to read src, which must not change before release.
	open(src []byte) error
	// release forgets src and gives the stream back to its pool.
	release()
}

const (
	// maxWindow is what RFC 8878 asks of every decoder, and enough for all zstd
	// levels up to 19.
	maxWindow = 8 << 20
	// maxWide bounds window and content of a batch written with a wider window, as
	// zstd's levels 20 to 22 do; it is the widest window that Java's reader takes.
	maxWide = 128 << 20
)

var (
	gzipStreams   = sync.Pool{New: func() any { return new(gzipStream) }}
	snappyStreams = sync.Pool{New: func() any { return new(snappyStream) }}
	lz4Streams    = sync.Pool{New: func() any { return new(lz4Stream) }}
	zstdStreams   = sync.Pool{New: func() any { return new(zstdStream) }}
)

// wide is the one decoder of such batches: whoever needs it waits, so that all of
// them together hold at most one maxWide.
var wide struct {
	sync.Mutex
	dec *zstd.Decoder
}

// openStream takes a stream for codec from its pool. Errors: ErrCodec,
// ErrInvalidRecord.
func openStream(src []byte, codec Codec) (stream, error) {
	var s stream
	switch codec {
	case CodecGzip:
		s = gzipStreams.Get().(*gzipStream)
	case CodecSnappy:
		s = snappyStreams.Get().(*snappyStream)
	case CodecLZ4:
		s = lz4Streams.Get().(*lz4Stream)
	case CodecZstd:
		s = zstdStreams.Get().(*zstdStream)
	default:
		return nil, fmt.Errorf("%w: %s", ErrCodec, codec)
	}
	if err := s.open(src); err != nil {
		s.release()
		return nil, streamFault(codec, err)
	}
	return s, nil
}

type gzipStream struct {
	src bytes.Reader
	gzip.Reader
}

func (s *gzipStream) open(src []byte) error {
	s.src.Reset(src)
	return s.Reset(&s.src)
}

func (s *gzipStream) release() {
	s.src.Reset(nil)
	gzipStreams.Put(s)
}

// zstdStream decodes through a window of at most maxWindow. A frame that asks for
// more, as the highest levels do for however little content, would make the
// decoder reserve what it asks for; such a body is decoded as a whole instead,
// where memory follows the content, one body at a time.
type zstdStream struct {
	src  bytes.Reader
	raw  []byte
	dec  *zstd.Decoder
	wide bytes.Reader // the content of a body with a wide window
	full bool         // the package's wide is locked by this stream
}

func newZstdDecoder(opts ...zstd.DOption) *zstd.Decoder {
	opts = append([]zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true)}, opts...)
	d, err := zstd.NewReader(nil, opts...)
	if err != nil {
		panic(err)
	}
	return d
}

func (s *zstdStream) open(src []byte) error {
	if s.dec == nil {
		s.dec = newZstdDecoder(zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderMaxMemory(MaxUncompressed))
	}
	s.src.Reset(src)
	s.raw, s.full = src, false
	return s.dec.Reset(&s.src)
}

func (s *zstdStream) Read(p []byte) (int, error) {
	if s.full {
		return s.wide.Read(p)
	}
	n, err := s.dec.Read(p)
	// Only the first frame may turn the whole body to the other way: bytes of an
	// earlier frame that were handed out cannot be taken back.
	if n == 0 && errors.Is(err, zstd.ErrWindowSizeExceeded) && needsWide(s.raw, CodecZstd) {
		return s.readWide(p)
	}
	return n, err
}

// needsWide reports a body whose first frame has a window beyond maxWindow.
func needsWide(body []byte, codec Codec) bool {
	var h zstd.Header
	return codec == CodecZstd && h.Decode(body) == nil && !h.Skippable && h.WindowSize > maxWindow
}

func (s *zstdStream) readWide(p []byte) (int, error) {
	wide.Lock()
	s.full = true
	if wide.dec == nil {
		wide.dec = newZstdDecoder(zstd.WithDecoderMaxMemory(maxWide), zstd.WithDecoderMaxWindow(maxWide))
	}
	content, err := wide.dec.DecodeAll(s.raw, nil)
	if err != nil {
		return 0, err
	}
	s.wide.Reset(content)
	return s.wide.Read(p)
}

func (s *zstdStream) release() {
	s.src.Reset(nil)
	s.wide.Reset(nil)
	s.raw = nil
	if s.full {
		s.full = false
		wide.Unlock()
	}
	zstdStreams.Put(s)
}
