package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// streamWindow is the window in bytes of zstd frames that are written step by step: what their readers must hold.
const streamWindow = 1 << 20

// streamZstds write frames of content whose size is not known; EncodeAll, which compress uses, needs it whole.
var streamZstds = sync.Pool{New: func() any {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(streamWindow))
	if err != nil {
		panic(err)
	}
	return w
}}

// Recompress returns the batch that Judge told s of with its records in codec, at most maxBytes large (0: MaxBatchSize).
// Header and records stay as they are. The records pass through windows, so that memory follows what is returned, not what
// the batch decompresses to. It does not change batch. Errors: ErrTooLarge, ErrCodec, ErrInvalidRecord, ErrBusy.
func Recompress(batch []byte, s Summary, codec Codec, maxBytes int) ([]byte, error) {
	if !codec.Known() {
		return nil, fmt.Errorf("%w: %s", ErrCodec, codec)
	}
	if maxBytes <= 0 {
		maxBytes = MaxBatchSize
	}
	gate := wideGate
	switch wide := needsWide(batch[HeaderSize:], s.Header.Codec()); {
	case wide || s.UncompressedBytes > briefLimit(len(batch)):
		gate = narrowGate
	case s.UncompressedBytes <= quickLimit(len(batch)):
		gate = quickGate
	}
	if err := gate.enter(); err != nil {
		return nil, err
	}
	defer gate.leave()
	out := &boundedBuffer{max: maxBytes}
	out.b = append(make([]byte, 0, min(len(batch), maxBytes)), batch[:HeaderSize]...)
	if err := transcode(out, batch[HeaderSize:], s.Header.Codec(), codec); err != nil {
		return nil, fmt.Errorf("batch at %d from %s to %s: %w", s.Header.BaseOffset, s.Header.Codec(), codec, err)
	}
	binary.BigEndian.PutUint32(out.b[posLength:], uint32(len(out.b)-sizePrefix))
	out.b[posAttributes+1] = out.b[posAttributes+1]&^attrCodec | byte(codec)
	stampCRC(out.b)
	return out.b, nil
}

func transcode(out *boundedBuffer, body []byte, from, to Codec) error {
	var src io.Reader = bytes.NewReader(body)
	if from != CodecNone {
		s, err := openStream(body, from)
		if err != nil {
			return err
		}
		defer s.release()
		src = s
	}
	switch to {
	case CodecGzip:
		return encode(&gzipWriters, out, src)
	case CodecLZ4:
		return encode(&lz4Writers, out, src)
	case CodecZstd:
		return encode(&streamZstds, out, src)
	case CodecSnappy:
		return encodeSnappy(out, src)
	}
	return pump(out, src)
}

// encode passes src through a writer of pool; one that has met an error is not used again.
func encode(pool *sync.Pool, out io.Writer, src io.Reader) error {
	w := pool.Get().(streamWriter)
	w.Reset(out)
	err := pump(w, src)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		pool.Put(w)
	}
	return err
}

func encodeSnappy(out *boundedBuffer, src io.Reader) error {
	window := windows.Get().(*[windowSize]byte)
	defer windows.Put(window)
	packed := make([]byte, 0, 4+snappy.MaxEncodedLen(xerialBlock))
	if _, err := out.Write(xerialHeader); err != nil {
		return err
	}
	for {
		n, err := io.ReadFull(src, window[:xerialBlock])
		if n > 0 {
			block := snappy.Encode(packed[4:cap(packed)], window[:n])
			binary.BigEndian.PutUint32(packed[:4], uint32(len(block)))
			if _, err := out.Write(packed[:4+len(block)]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return nil
		default:
			return err
		}
	}
}

// pump copies src to dst through a window.
func pump(dst io.Writer, src io.Reader) error {
	window := windows.Get().(*[windowSize]byte)
	defer windows.Put(window)
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, window[:])
	return err
}

// boundedBuffer is a batch that grows.
type boundedBuffer struct {
	b   []byte
	max int
}

func (o *boundedBuffer) Write(p []byte) (int, error) {
	if len(o.b)+len(p) > o.max {
		return 0, fmt.Errorf("%w: over %d bytes when it is compressed again", ErrTooLarge, o.max)
	}
	o.b = append(slices.Grow(o.b, len(p)), p...)
	return len(p), nil
}
