package published

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"tidemark/catalog"
)

const (
	magic       = "TMPB"
	version     = 1
	headerBytes = 8
	frameBytes  = 8 // before each payload
	stampBytes  = 8 // at the beginning of each payload
	maxPayload  = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// errTorn: the bytes from here on are no whole entry.
	errTorn = errors.New("published: no whole entry")
	// errForeign: the file is not ours, or of a later release.
	errForeign = errors.New("published: not a record of this version")
)

// entry is a row and when it was noted.
type entry struct {
	at  int64 // ms since 1970
	row catalog.Publication
}

func header() []byte {
	b := append(make([]byte, 0, headerBytes), magic...)
	b = binary.BigEndian.AppendUint16(b, version)
	return binary.BigEndian.AppendUint16(b, 0)
}

// appendEntry appends a framed entry to b.
func appendEntry(b []byte, at time.Time, row catalog.Publication) ([]byte, error) {
	raw, err := json.Marshal(row)
	if err != nil {
		return b, fmt.Errorf("published: encode a row: %w", err)
	}
	if stampBytes+len(raw) > maxPayload {
		return b, fmt.Errorf("published: a row of %d bytes", len(raw))
	}
	start := len(b)
	b = append(b, make([]byte, frameBytes)...)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli()))
	b = append(b, raw...)
	payload := b[start+frameBytes:]
	binary.BigEndian.PutUint32(b[start:], uint32(len(payload)))
	binary.BigEndian.PutUint32(b[start+4:], crc32.Checksum(payload, castagnoli))
	return b, nil
}

// parse returns the entries of a file and up to where it is whole. Errors: errTorn if it is not whole to its end,
// errForeign.
func parse(b []byte) (entries []entry, good int, err error) {
	if len(b) < headerBytes {
		return nil, 0, errTorn
	}
	if string(b[:len(magic)]) != magic || binary.BigEndian.Uint16(b[len(magic):]) != version {
		return nil, 0, errForeign
	}
	for good = headerBytes; good < len(b); {
		e, n, err := parseEntry(b[good:])
		if err != nil {
			return entries, good, err
		}
		entries = append(entries, e)
		good += n
	}
	return entries, good, nil
}

// parseEntry takes the first entry off b and says how many bytes it is.
func parseEntry(b []byte) (e entry, n int, err error) {
	if len(b) < frameBytes {
		return e, 0, errTorn
	}
	size := binary.BigEndian.Uint32(b)
	if size < stampBytes || size > maxPayload || len(b)-frameBytes < int(size) {
		return e, 0, errTorn
	}
	payload := b[frameBytes : frameBytes+int(size)]
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(b[4:]) {
		return e, 0, errTorn
	}
	e.at = int64(binary.BigEndian.Uint64(payload))
	if err := json.Unmarshal(payload[stampBytes:], &e.row); err != nil {
		return e, 0, errTorn
	}
	return e, frameBytes + int(size), nil
}
