package segment

import (
	"errors"
	"fmt"
	"io"

	"tidemark/record"
)

// scanChunk is what a scan reads at once, unless a batch is larger.
const scanChunk = 1 << 20

// Stop says why a scan ended before the file did.
type Stop string

// Reasons. A file that ends where a batch ends has none.
const (
	StopNone  Stop = ""
	StopTorn  Stop = "a torn batch"
	StopZeros Stop = "zeros where a batch should be"
	StopBad   Stop = "a damaged batch"
	StopOrder Stop = "a batch that does not continue the log"
)

// Scanned is the outcome of a scan.
type Scanned struct {
	Good int64         // bytes of whole, checked batches
	Next record.Offset // where the next batch would begin
	Stop Stop
	Err  error // what is wrong at Good, for the log line
}

// Scan reads the batches of [0, size), checks length, CRC and that each begins
// where the one before ended (the first at base), and hands each to visit. It
// ends at the first that fails; only an error of the file or of visit is an error.
func Scan(r io.ReaderAt, base record.Offset, size int64, visit func(h record.Header, pos int64, batch []byte) error) (Scanned, error) {
	s := scanner{r: r, size: size, out: Scanned{Next: base}}
	for s.out.Good < size {
		h, batch, err := s.batch()
		if err != nil {
			return s.out, err
		}
		if s.out.Stop != StopNone {
			return s.out, nil
		}
		if err := visit(h, s.out.Good, batch); err != nil {
			return s.out, err
		}
		s.out.Good += int64(len(batch))
		s.out.Next = h.NextOffset()
	}
	return s.out, nil
}

type scanner struct {
	r    io.ReaderAt
	size int64
	buf  []byte
	at   int64 // position of buf[0]
	out  Scanned
}

// batch returns the checked batch at Good, or sets Stop.
func (s *scanner) batch() (record.Header, []byte, error) {
	b, err := s.window(record.HeaderSize)
	if err != nil {
		return record.Header{}, nil, err
	}
	h, err := record.ParseHeader(b)
	if err != nil {
		stop := StopBad
		switch {
		case zeros(b):
			stop = StopZeros
		case errors.Is(err, record.ErrTruncated):
			stop = StopTorn
		}
		s.stop(stop, err)
		return h, nil, nil
	}
	if int64(h.Size()) > s.size-s.out.Good {
		s.stop(StopTorn, fmt.Errorf("%w: batch of %d bytes, %d are there", record.ErrTruncated, h.Size(), s.size-s.out.Good))
		return h, nil, nil
	}
	if b, err = s.window(h.Size()); err != nil {
		return h, nil, err
	}
	b = b[:h.Size()]
	if err := record.CheckCRC(b); err != nil {
		s.stop(StopBad, err)
		return h, nil, nil
	}
	if h.BaseOffset != s.out.Next {
		s.stop(StopOrder, fmt.Errorf("offset %d, want %d", h.BaseOffset, s.out.Next))
	}
	return h, b, nil
}

func (s *scanner) stop(why Stop, err error) { s.out.Stop, s.out.Err = why, err }

// window returns the bytes from Good on: n of them, or what the file has.
func (s *scanner) window(n int) ([]byte, error) {
	pos := s.out.Good
	n = int(min(int64(n), s.size-pos))
	if off := pos - s.at; s.buf != nil && off >= 0 && off+int64(n) <= int64(len(s.buf)) {
		return s.buf[off:], nil
	}
	want := int(min(int64(max(n, scanChunk)), s.size-pos))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:want]
	got, err := s.r.ReadAt(s.buf, pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("scan at %d: %w", pos, err)
	}
	if got < n {
		return nil, fmt.Errorf("scan at %d: %d of %d bytes: %w", pos, got, n, io.ErrUnexpectedEOF)
	}
	s.buf, s.at = s.buf[:got], pos
	return s.buf, nil
}

func zeros(b []byte) bool {
	for _, x := range b[:min(len(b), record.HeaderSize)] {
		if x != 0 {
			return false
		}
	}
	return true
}
