package record

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/pierrec/lz4/v4"
)

// lz4Stream reads one frame of independent blocks and nothing after it: the Java
// client can read no other, so none may get into a log.
type lz4Stream struct {
	src bytes.Reader
	dec *lz4.Reader
}

// The head of a frame: magic (little-endian), flags, block descriptor, content
// size if flagged, header checksum. Blocks follow, then a block size of 0.
const (
	lz4Magic           = 0x184D2204 // the legacy format has another
	lz4HeadSize        = 7
	lz4Independent     = 0x20
	lz4BlockChecksum   = 0x10
	lz4ContentSize     = 0x08
	lz4ContentChecksum = 0x04
	lz4Dictionary      = 0x01
	lz4Uncompressed    = 1 << 31 // of a block's size
)

var errLZ4Frame = errors.New("not one frame of independent blocks")

// plainLZ4 reports that src is exactly one frame as described above, by its
// lengths; the decoder looks at the rest.
func plainLZ4(src []byte) bool {
	if len(src) < lz4HeadSize || binary.LittleEndian.Uint32(src) != lz4Magic {
		return false
	}
	flags := src[4]
	if flags&(lz4Independent|lz4Dictionary) != lz4Independent {
		return false
	}
	optional := func(flag byte, size int) int {
		if flags&flag != 0 {
			return size
		}
		return 0
	}
	at := lz4HeadSize + optional(lz4ContentSize, 8)
	for at <= len(src)-4 {
		size := int(binary.LittleEndian.Uint32(src[at:]) &^ lz4Uncompressed)
		at += 4
		if size == 0 {
			return at+optional(lz4ContentChecksum, 4) == len(src)
		}
		at += size + optional(lz4BlockChecksum, 4)
	}
	return false
}

func (s *lz4Stream) open(src []byte) error {
	if !plainLZ4(src) {
		return errLZ4Frame
	}
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
