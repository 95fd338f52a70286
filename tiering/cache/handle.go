package cache

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Handle is one caller's hold on a chunk: until Release the chunk stays readable, whatever is evicted. Safe for
// concurrent use, but nothing may be called after Release.
type Handle struct {
	cache   *Cache
	entry   *entry
	header  header
	file    *os.File // nil if mem is set
	mem     []byte   // a chunk that the disk did not take
	release sync.Once
}

// Len is the chunk's length in bytes.
func (h *Handle) Len() int64 { return h.header.size }

// ReadAt implements io.ReaderAt. What it returns fits its checksums; ErrDamaged means that the file does not.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("cache: offset %d", off)
	}
	if off >= h.header.size {
		return 0, io.EOF
	}
	var end error
	if int64(len(p)) > h.header.size-off {
		p, end = p[:h.header.size-off], io.EOF
	}
	if h.mem != nil {
		return copy(p, h.mem[off:]), end
	}
	if err := h.header.readChecked(h.file, p, off); err != nil {
		return 0, h.damaged(err)
	}
	return len(p), end
}

// Section gives the file and the offset in it where the chunk's bytes [off, off+n) lie, after it has checked them, for
// sendfile. The file is the handle's: read it with ReadAt or sendfile from an explicit offset, do not close it, do not
// use it after Release. ok is false for a chunk that is only in memory: use ReadAt.
func (h *Handle) Section(off, n int64) (f *os.File, at int64, ok bool, err error) {
	if off < 0 || n < 0 || off+n > h.header.size {
		return nil, 0, false, fmt.Errorf("cache: section %d+%d of %d", off, n, h.header.size)
	}
	if h.mem != nil {
		return nil, 0, false, nil
	}
	if err := h.header.checkBlocks(h.file, off, n); err != nil {
		return nil, 0, false, h.damaged(err)
	}
	return h.file, h.header.data + off, true, nil
}

// Release ends the hold; more calls do nothing.
func (h *Handle) Release() {
	h.release.Do(func() {
		if h.file != nil {
			_ = h.file.Close()
		}
		h.cache.unpin(h.entry)
	})
}

// damaged forgets the chunk, so that the next Get downloads it.
func (h *Handle) damaged(err error) error {
	if errors.Is(err, ErrDamaged) {
		h.cache.forget(h.entry)
	}
	return err
}
