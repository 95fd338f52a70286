package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Errors of parsers.
var (
	// ErrFormat: the bytes are not a checkpoint's, or damaged.
	ErrFormat = errors.New("checkpoint: not a valid checkpoint")
	// ErrVersion: a newer release wrote the checkpoint.
	ErrVersion = errors.New("checkpoint: format version is newer than this release")
)

// Version is the format that this release writes.
const Version = 1

// An object begins with a skippable frame of zstd, so that zstd's own tools read the rest:
//
//	0   4  0x184D2A5D, little-endian
//	4   4  12, little-endian: the bytes that follow
//	8   8  "TIDECKPT"
//	16  2  version, big-endian
//	18  2  features that a reader must know, big-endian: 0
//	20     one zstd frame with checksum: lines of JSON, the last of which counts them
const (
	frameMagic  = 0x184D2A5D
	frameBytes  = 12
	headerBytes = 20
)

var magic = [8]byte{'T', 'I', 'D', 'E', 'C', 'K', 'P', 'T'}

// maxLine bounds one line, and with it what a damaged object makes us allocate.
const maxLine = 16 << 20

// line is one line: exactly one field is set.
type line struct {
	Head      *headLine      `json:"checkpoint,omitempty"`
	Broker    *brokerLine    `json:"broker,omitempty"`
	Topic     *topicLine     `json:"topic,omitempty"`
	Partition *partitionLine `json:"partition,omitempty"`
	Deleted   *deletedLine   `json:"deleted,omitempty"`
	Offset    *offsetLine    `json:"offset,omitempty"`
	Row       *rowLine       `json:"row,omitempty"`
	End       *endLine       `json:"end,omitempty"`
}

type endLine struct {
	Lines int64 `json:"lines"`
}

// encoder writes lines into a compressed object.
type encoder struct {
	out   bytes.Buffer
	z     *zstd.Encoder
	json  *json.Encoder
	lines int64
}

func newEncoder() *encoder {
	e := &encoder{}
	var header [headerBytes]byte
	binary.LittleEndian.PutUint32(header[:], frameMagic)
	binary.LittleEndian.PutUint32(header[4:], frameBytes)
	copy(header[8:], magic[:])
	binary.BigEndian.PutUint16(header[16:], Version)
	e.out.Write(header[:])
	z, err := zstd.NewWriter(&e.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		panic(fmt.Sprintf("checkpoint: options of the encoder: %v", err))
	}
	e.z, e.json = z, json.NewEncoder(z)
	return e
}

// add writes a line; writing to memory cannot fail.
func (e *encoder) add(l line) {
	e.lines++
	if err := e.json.Encode(l); err != nil {
		panic(fmt.Sprintf("checkpoint: a line does not encode: %v", err))
	}
}

// finish returns the object.
func (e *encoder) finish() []byte {
	e.add(line{End: &endLine{e.lines}})
	if err := e.z.Close(); err != nil {
		panic(fmt.Sprintf("checkpoint: %v", err))
	}
	return e.out.Bytes()
}

// decode calls each with every line of an object. Errors: ErrFormat, ErrVersion, each's.
func decode(raw []byte, each func(line) error) error {
	if len(raw) < headerBytes || binary.LittleEndian.Uint32(raw) != frameMagic ||
		binary.LittleEndian.Uint32(raw[4:]) != frameBytes || [8]byte(raw[8:]) != magic {
		return fmt.Errorf("%w: %d bytes", ErrFormat, len(raw))
	}
	if v, features := binary.BigEndian.Uint16(raw[16:]), binary.BigEndian.Uint16(raw[18:]); v != Version || features != 0 {
		return fmt.Errorf("%w: version %d, features %#x", ErrVersion, v, features)
	}
	z, err := zstd.NewReader(bytes.NewReader(raw[headerBytes:]), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	defer z.Close()
	lines := bufio.NewScanner(z)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var n int64
	ended := false
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil || ended {
			return fmt.Errorf("%w: line %d: %w", ErrFormat, n+1, orExtra(err))
		}
		if l.End != nil {
			if l.End.Lines != n {
				return fmt.Errorf("%w: %d lines of %d", ErrFormat, n, l.End.Lines)
			}
			ended = true
			continue
		}
		n++
		if err := each(l); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: line %d: %w", ErrFormat, n+1, err)
	}
	if !ended {
		return fmt.Errorf("%w: %w after %d lines", ErrFormat, io.ErrUnexpectedEOF, n)
	}
	return nil
}

func orExtra(err error) error {
	if err != nil {
		return err
	}
	return errors.New("a line behind the last")
}
