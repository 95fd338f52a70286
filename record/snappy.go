package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

const (
	// maxSnappyRatio: the densest element is three bytes for 64.
	maxSnappyRatio = 22
	// maxPooled is the largest block buffer, in bytes, that a pool keeps.
	maxPooled = 1 << 20
)

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
	if n > min(maxSnappyRatio*len(src), MaxUncompressed) {
		return fmt.Errorf("block of %d bytes claims %d", len(src), n)
	}
	// Strict: the usual decoder also takes S2's extension of snappy, on which every
	// other reader would choke. Walking the tags for it before a fast decode was
	// measured and is no faster.
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
