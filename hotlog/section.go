package hotlog

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"tidemark/record"
)

// Section is a run of whole batches in one segment file: bytes [Pos, Pos+Len) of
// File, offsets from First's batch up to Next. It stays readable after its
// segment was rolled, freed or its partition removed, until Release. A log that
// is truncated below Next takes the bytes away: reads then end with
// io.ErrUnexpectedEOF. Len 0 is an empty section, without File.
type Section struct {
	// File is for reads at a position only (ReadAt, sendfile with an offset); its
	// own position is shared with others.
	File     *os.File
	Pos, Len int64
	// First is the first batch's base offset, which may be below the offset that
	// was asked for; Next follows the last batch. An empty section has both where
	// the reader stands.
	First, Next record.Offset

	handle   *handle
	files    *FileLimit
	released atomic.Bool
}

// Release gives the file back. Idempotent; nil is allowed.
func (s *Section) Release() {
	if s == nil || s.handle == nil || s.released.Swap(true) {
		return
	}
	s.handle.release()
}

// ReadAt reads from off bytes into the section, as io.ReaderAt.
func (s *Section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= s.Len {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), s.Len-off)]
	s.files.BeginRead()
	n, err := s.File.ReadAt(want, s.Pos+off)
	s.files.EndRead()
	if err == io.EOF && n < len(want) {
		return n, io.ErrUnexpectedEOF
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// WriteTo sends the whole section, as io.WriterTo.
func (s *Section) WriteTo(w io.Writer) (int64, error) { return s.WriteRange(w, 0, s.Len) }

// WriteRange sends n bytes from off bytes into the section: by sendfile where the
// system and w allow it, else through a pooled buffer.
func (s *Section) WriteRange(w io.Writer, off, n int64) (int64, error) {
	if off < 0 || n < 0 || off+n > s.Len {
		return 0, fmt.Errorf("hotlog: range [%d, %d) of a section of %d bytes", off, off+n, s.Len)
	}
	sent, done, err := sendFile(w, s, off, n)
	if done || err != nil {
		return sent, err
	}
	return s.copyRange(w, off, n)
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

func (s *Section) copyRange(w io.Writer, off, n int64) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	var sent int64
	for sent < n {
		p := (*buf)[:min(int64(len(*buf)), n-sent)]
		got, err := s.ReadAt(p, off+sent)
		if got > 0 {
			m, werr := w.Write(p[:got])
			sent += int64(m)
			if werr != nil {
				return sent, werr
			}
		}
		if err != nil && !(err == io.EOF && sent == n) {
			return sent, err
		}
	}
	return sent, nil
}
