package hotlog

import (
	"io"
	"os"
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
