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
	size    int64
	release sync.Once

	mu     sync.Mutex // guards the opening of the file, and so is held over that one I/O
	header header
	file   *os.File // nil until the file is needed
}

// Len is the chunk's length in bytes.
func (h *Handle) Len() int64 { return h.size }

// ReadAt implements io.ReaderAt. What it returns fits its checksums; ErrDamaged means that the file does not.
func (h *Handle) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("cache: offset %d", off)
	}
	if off >= h.size {
		return 0, io.EOF
	}
	var end error
	if int64(len(p)) > h.size-off {
		p, end = p[:h.size-off], io.EOF
	}
	if m := h.entry.image.Load(); m != nil && m.hold() {
		m.read(p, off)
		m.drop()
		return len(p), end
	}
	f, err := h.disk()
	if err == nil {
		err = h.header.readChecked(gated{f, h.cache.opts.Reads}, p, off)
	}
	if err != nil {
		return 0, h.damaged(err)
	}
	return len(p), end
}

// Section gives the file and the offset in it where the chunk's bytes [off, off+n) lie, after it has checked them, for
// sendfile. The file is the handle's: read it with ReadAt or sendfile from an explicit offset, do not close it, do not
// use it after Release. ok is false for a chunk that is only in memory, for now or for good: use ReadAt.
func (h *Handle) Section(off, n int64) (f *os.File, at int64, ok bool, err error) {
	if off < 0 || n < 0 || off+n > h.size {
		return nil, 0, false, fmt.Errorf("cache: section %d+%d of %d", off, n, h.size)
	}
	if h.entry.image.Load() != nil {
		return nil, 0, false, nil
	}
	f, err = h.disk()
	if err == nil {
		err = h.header.checkBlocks(gated{f, h.cache.opts.Reads}, off, n)
	}
	if err != nil {
		return nil, 0, false, h.damaged(err)
	}
	return f, h.header.data + off, true, nil
}

// disk opens the chunk's file, which is written once there is no image, and checks its header. ErrDamaged if it is
// missing or not whole; then the chunk is forgotten.
func (h *Handle) disk() (*os.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.file != nil {
		return h.file, nil
	}
	h.cache.opts.Reads.BeginRead()
	defer h.cache.opts.Reads.EndRead()
	f, err := os.Open(h.entry.path)
	if err == nil {
		if h.header, err = readHeader(f); err == nil && h.header.key == h.entry.key {
			h.file = f
			return f, nil
		}
		_ = f.Close()
	}
	if err == nil || errors.Is(err, errHeader) || errors.Is(err, os.ErrNotExist) {
		return nil, h.damaged(fmt.Errorf("%w: %s chunk %d: %w", ErrDamaged, h.entry.key.Object, h.entry.key.Chunk, errors.Join(errHeader, err)))
	}
	return nil, fmt.Errorf("cache: %w", err)
}

// gated is a file whose reads take a place each.
type gated struct {
	f     *os.File
	reads ReadGate
}

func (g gated) ReadAt(p []byte, off int64) (int, error) {
	g.reads.BeginRead()
	defer g.reads.EndRead()
	return g.f.ReadAt(p, off)
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
