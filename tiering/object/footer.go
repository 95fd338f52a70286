package object

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"tidemark/record"
)

// Errors of parsers.
var (
	// ErrFormat: the bytes are not an object's, or damaged.
	ErrFormat = errors.New("object: not a valid remote segment")
	// ErrVersion: a newer release wrote the object.
	ErrVersion = errors.New("object: format version is newer than this release")
	// ErrShort: more bytes from the end of the object are needed; see TrailerSize and FooterSize.
	ErrShort = errors.New("object: footer is cut off")
)

// Version is the format that this release writes.
const Version = 1

// TrailerSize is the size of the last bytes of every object: footer length and CRC-32C, magic.
const TrailerSize = 16

// MaxFooter bounds the footer, trailer included: one read of as many bytes from the end holds it.
const MaxFooter = 4096

var (
	footerMagic  = [8]byte{'T', 'I', 'D', 'E', 'M', 'A', 'R', 'K'}
	trailerMagic = [8]byte{'T', 'M', 'O', 'B', 'J', 'E', 'N', 'D'}
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// BlockType says what a block holds. Readers pass over types that they do not know.
type BlockType uint16

// The blocks of version 1, in the order in which they lie.
const (
	BlockData BlockType = 1 + iota
	BlockDigests
	BlockProducers
	BlockAborted
	BlockEpochs
	BlockTimes
	BlockOffsets
)

// Block is one entry of the block table. Flags 0 means stored as it is; any other value, reserved for
// compression and encryption, makes a reader of this version refuse the block.
type Block struct {
	Type     BlockType
	Flags    uint16
	CRC      uint32 // CRC-32C of the stored bytes
	Position int64
	Length   int64 // as stored
	RawBytes int64 // once decoded
}

const blockEntry = 32

// Footer is what an object says of itself. Offsets are half-open, times in milliseconds.
type Footer struct {
	Cluster, Topic ID
	TopicName      string
	Partition      int32
	// LeaderEpoch is the uploader's, Generation counts rewrites (0: as uploaded).
	LeaderEpoch  record.Epoch
	Generation   int32
	Base, Next   record.Offset
	MinTimestamp int64
	MaxTimestamp int64 // record.NoTimestamp if there are no records, as MinTimestamp
	Records      int64
	Batches      int64
	// AppendTime is the broker's clock at the append of the last batch; CleanSince as in the catalog.
	AppendTime, CleanSince int64
	Attempt                string
	DataBytes              int64
	TailPosition           int64
	// ObjectBytes is the size of the whole.
	ObjectBytes int64
	Blocks      []Block
}

// Key is the object's name as the footer tells it.
func (f *Footer) Key() string {
	return Key(f.Cluster, f.Topic, f.Partition, f.Base, f.Attempt)
}

// Block returns the entry of a type, false if the object has none.
func (f *Footer) Block(t BlockType) (Block, bool) {
	for _, b := range f.Blocks {
		if b.Type == t {
			return b, true
		}
	}
	return Block{}, false
}

// appendTo writes footer and trailer. The layout is in docs/format/object.md.
func (f *Footer) appendTo(dst []byte) []byte {
	be, begin := binary.BigEndian, len(dst)
	dst = append(dst, footerMagic[:]...)
	dst = be.AppendUint16(dst, Version)
	dst = be.AppendUint16(dst, 0) // features that a reader must know: none
	dst = append(dst, f.Cluster[:]...)
	dst = append(dst, f.Topic[:]...)
	dst = be.AppendUint32(dst, uint32(f.Partition))
	dst = be.AppendUint32(dst, uint32(f.LeaderEpoch))
	dst = be.AppendUint32(dst, uint32(f.Generation))
	for _, v := range [...]int64{
		int64(f.Base), int64(f.Next), f.MinTimestamp, f.MaxTimestamp, f.Records, f.Batches,
		f.AppendTime, f.CleanSince, f.DataBytes, f.TailPosition, f.ObjectBytes,
	} {
		dst = be.AppendUint64(dst, uint64(v))
	}
	dst = be.AppendUint16(dst, uint16(len(f.Attempt)))
	dst = append(dst, f.Attempt...)
	dst = be.AppendUint16(dst, uint16(len(f.TopicName)))
	dst = append(dst, f.TopicName...)
	dst = be.AppendUint16(dst, uint16(len(f.Blocks)))
	for _, b := range f.Blocks {
		dst = be.AppendUint16(dst, uint16(b.Type))
		dst = be.AppendUint16(dst, b.Flags)
		dst = be.AppendUint32(dst, b.CRC)
		dst = be.AppendUint64(dst, uint64(b.Position))
		dst = be.AppendUint64(dst, uint64(b.Length))
		dst = be.AppendUint64(dst, uint64(b.RawBytes))
	}
	footer := dst[begin:]
	dst = be.AppendUint32(dst, uint32(len(footer)))
	dst = be.AppendUint32(dst, crc32.Checksum(footer, castagnoli))
	return append(dst, trailerMagic[:]...)
}

// footerFixed is the footer's length without its two texts and its table.
const footerFixed = 8 + 2 + 2 + 16 + 16 + 3*4 + 11*8 + 3*2

// footerSize is what appendTo adds for a footer with so many blocks.
func (f *Footer) size(blocks int) int64 {
	return int64(footerFixed + len(f.Attempt) + len(f.TopicName) + blocks*blockEntry + TrailerSize)
}

// FooterSize reads the last TrailerSize bytes of an object and returns how many bytes from the end
// hold the footer, trailer included; at most MaxFooter. Errors: ErrFormat.
func FooterSize(trailer []byte) (int64, error) {
	if len(trailer) < TrailerSize {
		return 0, fmt.Errorf("%w: %d bytes", ErrFormat, len(trailer))
	}
	trailer = trailer[len(trailer)-TrailerSize:]
	if [8]byte(trailer[8:]) != trailerMagic {
		return 0, fmt.Errorf("%w: ends with %x", ErrFormat, trailer[8:])
	}
	n := int64(binary.BigEndian.Uint32(trailer)) + TrailerSize
	if n > MaxFooter {
		return 0, fmt.Errorf("%w: footer of %d bytes", ErrFormat, n)
	}
	return n, nil
}

// ParseFooter reads the footer of an object of objectBytes whose last bytes are end. It checks every
// number that a reader computes with. Errors: ErrShort, ErrFormat, ErrVersion.
func ParseFooter(end []byte, objectBytes int64) (*Footer, error) {
	n, err := FooterSize(end)
	if err != nil {
		return nil, err
	}
	if n > int64(len(end)) {
		return nil, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(end), n)
	}
	raw := end[int64(len(end))-n : len(end)-TrailerSize]
	if sum := binary.BigEndian.Uint32(end[len(end)-TrailerSize+4:]); sum != crc32.Checksum(raw, castagnoli) {
		return nil, fmt.Errorf("%w: footer's checksum", ErrFormat)
	}
	if len(raw) < footerFixed || [8]byte(raw) != footerMagic {
		return nil, fmt.Errorf("%w: footer of %d bytes", ErrFormat, len(raw))
	}
	if v, features := binary.BigEndian.Uint16(raw[8:]), binary.BigEndian.Uint16(raw[10:]); v != Version || features != 0 {
		return nil, fmt.Errorf("%w: version %d, features %#x", ErrVersion, v, features)
	}
	f := &Footer{}
	if err := f.decode(raw[12:]); err != nil {
		return nil, err
	}
	return f, f.check(objectBytes, n)
}

func (f *Footer) decode(raw []byte) error {
	be := binary.BigEndian
	f.Cluster, f.Topic = ID(raw), ID(raw[16:])
	f.Partition = int32(be.Uint32(raw[32:]))
	f.LeaderEpoch = record.Epoch(be.Uint32(raw[36:]))
	f.Generation = int32(be.Uint32(raw[40:]))
	raw = raw[44:]
	var base, next int64
	for _, v := range [...]*int64{
		&base, &next, &f.MinTimestamp, &f.MaxTimestamp, &f.Records, &f.Batches,
		&f.AppendTime, &f.CleanSince, &f.DataBytes, &f.TailPosition, &f.ObjectBytes,
	} {
		*v = int64(be.Uint64(raw))
		raw = raw[8:]
	}
	f.Base, f.Next = record.Offset(base), record.Offset(next)
	var ok bool
	if f.Attempt, raw, ok = cutText(raw); !ok {
		return fmt.Errorf("%w: attempt id runs past the footer", ErrFormat)
	}
	if f.TopicName, raw, ok = cutText(raw); !ok || len(raw) < 2 {
		return fmt.Errorf("%w: topic name runs past the footer", ErrFormat)
	}
	count := int(be.Uint16(raw))
	raw = raw[2:]
	if len(raw) != count*blockEntry {
		return fmt.Errorf("%w: %d blocks in %d bytes", ErrFormat, count, len(raw))
	}
	f.Blocks = make([]Block, count)
	for i := range f.Blocks {
		f.Blocks[i] = Block{
			Type: BlockType(be.Uint16(raw)), Flags: be.Uint16(raw[2:]), CRC: be.Uint32(raw[4:]),
			Position: int64(be.Uint64(raw[8:])), Length: int64(be.Uint64(raw[16:])), RawBytes: int64(be.Uint64(raw[24:])),
		}
		raw = raw[blockEntry:]
	}
	return nil
}

// cutText reads a length and as many bytes.
func cutText(raw []byte) (text string, rest []byte, ok bool) {
	if len(raw) < 2 {
		return "", raw, false
	}
	n := int(binary.BigEndian.Uint16(raw))
	if len(raw) < 2+n {
		return "", raw, false
	}
	return string(raw[2 : 2+n]), raw[2+n:], true
}

// check holds the footer against the object's size: the blocks follow each other without gap from
// byte 0 to the footer.
func (f *Footer) check(objectBytes, footer int64) error {
	switch {
	case f.ObjectBytes != objectBytes:
		return fmt.Errorf("%w: says %d bytes of %d", ErrFormat, f.ObjectBytes, objectBytes)
	case f.Base < 0 || f.Next <= f.Base || f.Records < 0 || f.Batches < 1 || f.Partition < 0 || f.DataBytes < 1:
		return fmt.Errorf("%w: offsets [%d,%d), %d records", ErrFormat, f.Base, f.Next, f.Records)
	case len(f.Blocks) == 0 || f.Blocks[0].Type != BlockData || f.Blocks[0].Length != f.DataBytes:
		return fmt.Errorf("%w: no data block of %d bytes", ErrFormat, f.DataBytes)
	}
	at, tail := int64(0), false
	for _, b := range f.Blocks {
		if b.Position != at || b.Length < 0 || b.Length > objectBytes-at || b.RawBytes < 0 {
			return fmt.Errorf("%w: block %d at %d, %d bytes", ErrFormat, b.Type, b.Position, b.Length)
		}
		tail = tail || b.Position == f.TailPosition && b.Type >= BlockAborted
		at += b.Length
	}
	if at != objectBytes-footer || !tail {
		return fmt.Errorf("%w: blocks end at %d, footer begins at %d, tail at %d", ErrFormat, at, objectBytes-footer, f.TailPosition)
	}
	return nil
}
