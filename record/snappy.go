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
	if n > maxSnappyRatio*len(src) {
		return fmt.Errorf("block of %d bytes claims %d", len(src), n)
	}
	// The decoder also takes S2's extension of snappy, on which every other reader
	// would choke.
	if !plainSnappy(src) {
		return snappy.ErrCorrupt
	}
	s.block, err = snappy.Decode(s.block[:cap(s.block)], src)
	return err
}

// plainSnappy reports that a block has no copy with offset 0, by which S2 marks
// its repeat offsets. Walking the tags and decoding is several times faster than
// the library's own strict decoder.
func plainSnappy(block []byte) bool {
	_, n := binary.Uvarint(block)
	for i := n; i >= 0 && i < len(block); {
		tag := block[i]
		if tag&3 == 0 { // literal: its length lies in the tag or in up to four bytes behind it
			length, extra := int(tag>>2), 0
			if length >= 60 {
				extra = length - 59
				length = 0
				for j := min(extra, len(block)-i-1); j > 0; j-- {
					length = length<<8 | int(block[i+j])
				}
			}
			i += extra + length + 2
			continue
		}
		offset, size := uint32(tag&0xe0), 2
		if tag&3 > 1 {
			offset, size = 0, 1<<(tag&3-1)+1 // two or four bytes of offset
		}
		for _, b := range block[i+1 : min(i+size, len(block))] {
			offset |= uint32(b)
		}
		if offset == 0 {
			return false
		}
		i += size
	}
	return true
}

func (s *snappyStream) release() {
	s.rest = nil
	if cap(s.block) > maxPooled {
		s.block = nil
	}
	snappyStreams.Put(s)
}
