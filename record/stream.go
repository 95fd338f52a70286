package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
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
	// maxWide bounds the content of a batch written with a wider window (zstd
	// levels 20 to 22), which is decoded as a whole.
	maxWide = 64 << 20
	// maxSnappyRatio: the densest element is three bytes for 64.
	maxSnappyRatio = 22
	// maxPooled is the largest block buffer that a pool keeps.
	maxPooled = 1 << 20
)

var (
	gzipStreams   = sync.Pool{New: func() any { return new(gzipStream) }}
	snappyStreams = sync.Pool{New: func() any { return new(snappyStream) }}
	lz4Streams    = sync.Pool{New: func() any { return new(lz4Stream) }}
	zstdStreams   = sync.Pool{New: func() any { return new(zstdStream) }}
	zstdWide      = sync.Pool{New: func() any {
		return newZstdDecoder(zstd.WithDecoderMaxMemory(maxWide), zstd.WithDecoderMaxWindow(1<<30))
	}}
)

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

type lz4Stream struct {
	src bytes.Reader
	dec *lz4.Reader
}

func (s *lz4Stream) open(src []byte) error {
	s.src.Reset(src)
	if s.dec == nil {
		s.dec = lz4.NewReader(&s.src)
		return nil
	}
	s.dec.Reset(&s.src)
	return nil
}

func (s *lz4Stream) Read(p []byte) (int, error) { return s.dec.Read(p) }

func (s *lz4Stream) release() {
	s.src.Reset(nil)
	lz4Streams.Put(s)
}

// zstdStream decodes through a window of at most maxWindow. A frame that asks for
// more, as the highest levels do for however little content, would make the
// decoder reserve what it asks for; such a body is decoded as a whole instead,
// where memory follows the content.
type zstdStream struct {
	src  bytes.Reader
	raw  []byte
	dec  *zstd.Decoder
	wide bytes.Reader // the content of a body with a wide window
	full bool         // wide is in use
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
	if n == 0 && s.untouched() && errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return s.readWide(p)
	}
	return n, err
}

// untouched reports that the first frame of the body is the one being refused.
func (s *zstdStream) untouched() bool {
	var h zstd.Header
	return h.Decode(s.raw) == nil && !h.Skippable && h.WindowSize > maxWindow
}

func (s *zstdStream) readWide(p []byte) (int, error) {
	dec := zstdWide.Get().(*zstd.Decoder)
	defer zstdWide.Put(dec)
	content, err := dec.DecodeAll(s.raw, nil)
	if err != nil {
		return 0, err
	}
	s.full = true
	s.wide.Reset(content)
	return s.wide.Read(p)
}

func (s *zstdStream) release() {
	s.src.Reset(nil)
	s.wide.Reset(nil)
	s.raw = nil
	zstdStreams.Put(s)
}

// snappyStream reads xerial's framing (header, then length and block, again and
// again) and a bare block, which is what clients other than Java's may send.
type snappyStream struct {
	rest   []byte
	framed bool
	block  []byte // decoded
	read   int    // of block
}

var errSnappy = errors.New("malformed xerial framing")

func (s *snappyStream) open(src []byte) error {
	s.rest, s.block, s.read = src, s.block[:0], 0
	s.framed = bytes.HasPrefix(src, xerialHeader[:8])
	if len(src) == 0 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (s *snappyStream) Read(p []byte) (int, error) {
	for s.read == len(s.block) {
		if len(s.rest) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.block[s.read:])
	s.read += n
	return n, nil
}

func (s *snappyStream) next() error {
	s.block, s.read = s.block[:0], 0
	src := s.rest
	if s.framed {
		// Concatenated streams repeat the header; Java skips it too.
		if bytes.HasPrefix(src, xerialHeader[:8]) {
			if len(src) < len(xerialHeader) {
				return errSnappy
			}
			s.rest = src[len(xerialHeader):]
			return nil
		}
		if len(src) < 4 {
			return errSnappy
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return errSnappy
		}
		src = src[4 : 4+n]
		s.rest = s.rest[4+n:]
	} else {
		s.rest = nil
	}
	n, err := snappy.DecodedLen(src)
	if err != nil {
		return err
	}
	if n > maxSnappyRatio*len(src) {
		return fmt.Errorf("block of %d bytes claims %d", len(src), n)
	}
	// Strict: the S2 extensions that Decode also takes are no snappy, and other
	// readers would choke on them.
	s.block, err = snappy.DecodeStrict(s.block[:cap(s.block)], src)
	return err
}

func (s *snappyStream) release() {
	s.rest = nil
	if cap(s.block) > maxPooled {
		s.block = nil
	}
	snappyStreams.Put(s)
}
