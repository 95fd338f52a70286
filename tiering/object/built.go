package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"tidemark/record"
	"tidemark/record/producer"
)

// Built is a whole object: the batches where they lie and the blocks after them.
type Built struct {
	Footer
	// SHA256 and CRC32C (Castagnoli) are of all its bytes.
	SHA256 [32]byte
	CRC32C uint32
	// Epochs and Producers are those at Next, for the object that continues this one.
	Epochs    record.EpochHistory
	Producers *producer.State

	data io.ReaderAt
	rest []byte
}

// Tail returns the tail group: the object's bytes from TailPosition on. It must not be changed.
func (b *Built) Tail() []byte { return b.rest[b.TailPosition-b.DataBytes:] }

// ReadAt reads the object's bytes; data is read from where it lies, nothing is copied before.
func (b *Built) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= b.ObjectBytes {
		return 0, io.EOF
	}
	n := 0
	if off < b.DataBytes {
		want := p[:min(int64(len(p)), b.DataBytes-off)]
		m, err := b.data.ReadAt(want, off)
		if m < len(want) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF // the file is shorter than it was
			}
			return m, err
		}
		n = m
	}
	if n < len(p) {
		n += copy(p[n:], b.rest[off+int64(n)-b.DataBytes:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readSize is how much of the data is read at once.
const readSize = 1 << 20

var readBuffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

// Build reads the batches that lie in data's first size bytes, once, and returns the object that holds
// them; it may end before size (Spec.MaxBytes, MaxSpan): Built says where. The context is looked at
// between reads. Errors: ErrBatch, the reader's, the context's.
func Build(ctx context.Context, s Spec, data io.ReaderAt, size int64) (*Built, error) {
	b, err := NewBuilder(s)
	if err != nil {
		return nil, err
	}
	pooled := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(pooled)
	buf := *pooled
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		window := buf[:min(int64(len(buf)), size-at)]
		if n, err := data.ReadAt(window, at); n < len(window) {
			return nil, fmt.Errorf("object: read %d bytes at %d of %d: %w", len(window), at, size, shortRead(err))
		}
		used, need, err := b.appendAll(window)
		if errors.Is(err, errFull) {
			break
		}
		if err != nil {
			return nil, err
		}
		at += int64(used)
		if used == 0 {
			if need = max(need, record.HeaderSize); int64(need) > size-at {
				return nil, b.fault(fmt.Errorf("%w: %d of %d bytes", record.ErrTruncated, size-at, need))
			}
			buf = make([]byte, need)
		}
	}
	return b.Finish(data)
}

func shortRead(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendAll takes the whole batches at the front of window; need is the size of the one that is cut
// off, 0 if even its header is.
func (b *Builder) appendAll(window []byte) (used, need int, err error) {
	for len(window) >= record.HeaderSize {
		h, err := record.ParseHeader(window)
		if err != nil {
			return used, 0, b.fault(err)
		}
		if h.Size() > len(window) {
			return used, h.Size(), nil
		}
		if err := b.Append(window[:h.Size()]); err != nil {
			return used, 0, err
		}
		used += h.Size()
		window = window[h.Size():]
	}
	return used, 0, nil
}
