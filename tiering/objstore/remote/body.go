package remote

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"tidemark/tiering/objstore"
)

// body is what one attempt sends: a seekable view of [off, off+size) of the source. An HTTP client may go on reading it
// after it has answered, so detach cuts it off from the source before the caller gets the source back.
type body struct {
	src       objstore.Source
	off, size int64

	mu       sync.Mutex // held while the source is read: detach waits for a read in progress
	pos      int64
	detached bool
	err      error // why the source could not be read
}

func newBody(src objstore.Source, off, size int64) *body {
	return &body{src: src, off: off, size: size}
}

var errDetached = errors.New("attempt is over")

func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.detached {
		return 0, errDetached
	}
	left := b.size - b.pos
	if left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.src.ReadAt(p, b.off+b.pos)
	b.pos += int64(n)
	if err != nil && n < len(p) {
		// The length was promised to the service: a source that ends early is a fault, never an end.
		b.err = fmt.Errorf("%w: at byte %d of %d: %w", objstore.ErrSource, b.off+b.pos, b.src.Size, err)
		return n, b.err
	}
	return n, nil
}

func (b *body) Seek(offset int64, whence int) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += b.pos
	case io.SeekEnd:
		offset += b.size
	}
	if offset < 0 || offset > b.size {
		return 0, fmt.Errorf("seek to %d of %d", offset, b.size)
	}
	b.pos = offset
	return offset, nil
}

// detach ends the body's use of the source and returns the source's error, if it had one.
func (b *body) detach() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.detached = true
	return b.err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digests reads the body once and gives its SHA-256 in hexadecimal and, as the services write it, its CRC-32C.
func (b *body) digests() (sha, crc string, err error) {
	s, c := sha256.New(), crc32.New(castagnoli)
	if _, err := io.Copy(io.MultiWriter(s, c), b); err != nil {
		return "", "", err
	}
	if _, err := b.Seek(0, io.SeekStart); err != nil {
		return "", "", err
	}
	return hex.EncodeToString(s.Sum(nil)), base64CRC(c.Sum32()), nil
}

// base64CRC is a CRC-32C as the services write it.
func base64CRC(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}
