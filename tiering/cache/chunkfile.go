package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A chunk file, little-endian, version 1:
//
//	0   4  magic "TMCH"
//	4   4  version
//	8   4  CRC-32C of bytes 12 up to the end of the sums
//	12  4  block size
//	16  8  chunk number
//	24  8  data length
//	32  4  object key length k
//	36  k  object key
//	..  4  CRC-32C of each block of the data
//	..     zeros up to a multiple of 512, then the data
const (
	magic       = 0x48434d54
	version     = 1
	fixedHeader = 36
	blockSize   = 64 << 10
	dataAlign   = 512
	maxObject   = 4096 // bytes of an object key
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func blocks(size int64) int64 { return (size + blockSize - 1) / blockSize }

// headerSize is the offset of the data.
func headerSize(key Key, size int64) int64 {
	n := fixedHeader + int64(len(key.Object)) + 4*blocks(size)
	return (n + dataAlign - 1) / dataAlign * dataAlign
}

func fileSize(key Key, size int64) int64 { return headerSize(key, size) + size }

// seal fills in the header of buf, whose data is in place.
func seal(buf []byte, key Key, size int64) {
	data := buf[headerSize(key, size):]
	le := binary.LittleEndian
	le.PutUint32(buf[0:], magic)
	le.PutUint32(buf[4:], version)
	le.PutUint32(buf[12:], blockSize)
	le.PutUint64(buf[16:], uint64(key.Chunk))
	le.PutUint64(buf[24:], uint64(size))
	le.PutUint32(buf[32:], uint32(len(key.Object)))
	p := fixedHeader + copy(buf[fixedHeader:], key.Object)
	for off := int64(0); off < size; off += blockSize {
		le.PutUint32(buf[p:], crc32.Checksum(data[off:min(off+blockSize, size)], castagnoli))
		p += 4
	}
	clear(buf[p : len(buf)-len(data)])
	le.PutUint32(buf[8:], crc32.Checksum(buf[12:p], castagnoli))
}

// header is a parsed and checked one.
type header struct {
	key  Key
	size int64
	sums []byte // 4 bytes a block
	data int64  // offset of the data
}

var errHeader = errors.New("not a whole chunk file")

// readHeader reads and checks the header of f, whose length must fit.
func readHeader(f *os.File) (header, error) {
	fi, err := f.Stat()
	if err != nil {
		return header{}, err
	}
	buf := make([]byte, min(fi.Size(), 1024))
	if _, err := f.ReadAt(buf, 0); err != nil && err != io.EOF {
		return header{}, err
	}
	le := binary.LittleEndian
	if len(buf) < fixedHeader || le.Uint32(buf) != magic || le.Uint32(buf[4:]) != version || le.Uint32(buf[12:]) != blockSize {
		return header{}, errHeader
	}
	size, keyLen := int64(le.Uint64(buf[24:])), int64(le.Uint32(buf[32:]))
	if size < 0 || size > fi.Size() || keyLen > maxObject {
		return header{}, errHeader
	}
	end := fixedHeader + keyLen + 4*blocks(size)
	if end > fi.Size() {
		return header{}, errHeader
	}
	if end > int64(len(buf)) {
		buf = make([]byte, end)
		if _, err := f.ReadAt(buf, 0); err != nil {
			return header{}, err
		}
	}
	if crc32.Checksum(buf[12:end], castagnoli) != le.Uint32(buf[8:]) {
		return header{}, errHeader
	}
	h := header{key: Key{Object: string(buf[fixedHeader : fixedHeader+keyLen]), Chunk: int64(le.Uint64(buf[16:]))},
		size: size, sums: buf[fixedHeader+keyLen : end]}
	h.data = headerSize(h.key, size)
	if h.data+size != fi.Size() {
		return header{}, errHeader
	}
	return h, nil
}

// writeFile writes a sealed chunk in one go. A folder that somebody removed is made again. It is not synced: a file
// that a power cut tears fails its checksums.
func writeFile(path string, buf []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(buf)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// scratch holds blocks that are read only to be checked.
var scratch = sync.Pool{New: func() any { b := make([]byte, blockSize); return &b }}

// readChecked fills p with data from off on and checks every block that it touches.
func (h *header) readChecked(f io.ReaderAt, p []byte, off int64) error {
	for len(p) > 0 {
		block := off / blockSize
		start := block * blockSize
		length := min(blockSize, h.size-start)
		if off == start && int64(len(p)) >= length {
			// Whole blocks go straight to the caller, as many as there are in one read.
			whole := int64(len(p)) / blockSize * blockSize
			if off+int64(len(p)) == h.size || whole == 0 {
				whole = min(int64(len(p)), h.size-off)
			}
			if err := h.readBlocks(f, p[:whole], block); err != nil {
				return err
			}
			p, off = p[whole:], off+whole
			continue
		}
		buf := scratch.Get().(*[]byte)
		b := (*buf)[:length]
		err := h.readBlocks(f, b, block)
		n := copy(p, b[off-start:])
		scratch.Put(buf)
		if err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// readBlocks fills p with blocks from the given one on; p ends where a block ends.
func (h *header) readBlocks(f io.ReaderAt, p []byte, block int64) error {
	if n, err := f.ReadAt(p, h.data+block*blockSize); n < len(p) {
		return fmt.Errorf("%w: %s chunk %d: %w", ErrDamaged, h.key.Object, h.key.Chunk, err)
	}
	for len(p) > 0 {
		b := p[:min(blockSize, len(p))]
		if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(h.sums[4*block:]) {
			return fmt.Errorf("%w: %s chunk %d, block %d does not fit its checksum", ErrDamaged, h.key.Object, h.key.Chunk, block)
		}
		p, block = p[len(b):], block+1
	}
	return nil
}

// checkBlocks reads the blocks that [off, off+n) touches and keeps nothing.
func (h *header) checkBlocks(f io.ReaderAt, off, n int64) error {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	for block := off / blockSize; block*blockSize < off+n; block++ {
		if err := h.readBlocks(f, (*buf)[:min(blockSize, h.size-block*blockSize)], block); err != nil {
			return err
		}
	}
	return nil
}
