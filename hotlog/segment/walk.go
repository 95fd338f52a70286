package segment

import (
	"errors"
	"fmt"
	"io"

	"tidemark/record"
)

// windowSize holds the headers of many small batches in one pread.
const windowSize = 4096

// Walker goes over the headers of the batches of a file range, reading no more of
// the records than lies in its window. Reset before use; reusable; not for
// concurrent use.
type Walker struct {
	r        io.ReaderAt
	pos, end int64 // of the next batch, of the range
	at       int64 // position of window[0]
	n        int
	window   [windowSize]byte
	current  record.Header
	start    int64
	err      error
}

// Reset begins a walk of [pos, end).
func (w *Walker) Reset(r io.ReaderAt, pos, end int64) {
	w.r, w.pos, w.end, w.at, w.n, w.err = r, pos, end, 0, 0, nil
}

// Next goes to the next batch; false at the end of the range or on an error.
func (w *Walker) Next() bool {
	if w.err != nil || w.pos >= w.end {
		return false
	}
	b, err := w.header()
	if err == nil {
		w.current, err = record.ParseHeader(b)
	}
	if err == nil && w.pos+int64(w.current.Size()) > w.end {
		err = fmt.Errorf("%w: batch of %d bytes", record.ErrTruncated, w.current.Size())
	}
	if err != nil {
		w.err = fmt.Errorf("position %d of %d: %w", w.pos, w.end, err)
		return false
	}
	w.start = w.pos
	w.pos += int64(w.current.Size())
	return true
}

// header returns the bytes at pos, at least a header's if the range has them.
func (w *Walker) header() ([]byte, error) {
	if off := w.pos - w.at; off >= 0 && off+record.HeaderSize <= int64(w.n) {
		return w.window[off:w.n], nil
	}
	want := min(int64(windowSize), w.end-w.pos)
	n, err := w.r.ReadAt(w.window[:want], w.pos)
	if err != nil && !(errors.Is(err, io.EOF) && n > 0) {
		return nil, err
	}
	w.at, w.n = w.pos, n
	return w.window[:n], nil
}

// Header is the batch that Next found.
func (w *Walker) Header() record.Header { return w.current }

// Pos is where that batch begins.
func (w *Walker) Pos() int64 { return w.start }

// After is where the next batch begins, or the walk stopped.
func (w *Walker) After() int64 { return w.pos }

// Err is what stopped the walk before the end of its range: record's errors or
// the system's.
func (w *Walker) Err() error { return w.err }
