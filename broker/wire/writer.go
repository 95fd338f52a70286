package wire

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	// writeStep is how much is written under one deadline: a peer that takes
	// this much within WriteTimeout is slow, not dead.
	writeStep = 1 << 20
	// copyBelow is the size up to which bytes are gathered in the buffer
	// rather than written by a system call of their own.
	copyBelow = 16 << 10
	// gatherUpTo is the size up to which a range of a file is cheaper read than sent by sendfile, for both ends of the
	// connection together (BenchmarkPieces).
	gatherUpTo = 64 << 10
	// flushAbove is the fill at which the buffer is written out.
	flushAbove = 64 << 10
	// keepUpTo is the largest buffer that an idle connection keeps.
	keepUpTo = 16 << 10
)

// Writer is a connection's socket as a Body sees it. Small writes are
// gathered, so a response header and the first bytes after it, or the answers
// of pipelined requests, leave together. Every step moves the write deadline:
// a large answer to a slow reader is not cut off while it makes progress.
type Writer struct {
	conn    net.Conn
	timeout time.Duration
	reads   ReadGate
	buf     []byte
	// borrowed is buf's memory when it came from the pool and has not been outgrown.
	borrowed *[pooled]byte
	// slow is set while an answer is written that is counted.
	slow *slow
	// accepted counts all bytes taken over, to hold bodies to their Size.
	accepted int64
}

func (w *Writer) extend() error {
	return w.conn.SetWriteDeadline(time.Now().Add(w.step()))
}

// Write implements io.Writer. It keeps no reference to p.
func (w *Writer) Write(p []byte) (int, error) {
	w.accepted += int64(len(p))
	if len(p) < copyBelow {
		w.buf = append(w.buf, p...)
		if len(w.buf) < flushAbove {
			return len(p), nil
		}
		return len(p), w.flush()
	}
	head := p[:min(len(p), writeStep)]
	if len(w.buf) > 0 {
		if err := w.extend(); err != nil {
			return 0, err
		}
		both := net.Buffers{w.buf, head}
		if _, err := both.WriteTo(w.conn); err != nil {
			return 0, err
		}
		w.drop()
		return len(p), w.writeAll(p[len(head):])
	}
	return len(p), w.writeAll(p)
}

func (w *Writer) writeAll(p []byte) error {
	for len(p) > 0 {
		if err := w.extend(); err != nil {
			return err
		}
		n, err := w.conn.Write(p[:min(writeStep, len(p))])
		if err != nil && !w.slow.goOn(n, err, w.timeout) {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *Writer) flush() error {
	err := w.writeAll(w.buf)
	w.drop()
	return err
}

// pooled buffers hold what gather may put behind a buffer that is not due to be written.
const pooled = flushAbove + gatherUpTo

var buffers = sync.Pool{New: func() any { return new([pooled]byte) }}

// drop empties the buffer; a large one goes, a pooled one to the next connection.
func (w *Writer) drop() {
	switch {
	case w.borrowed != nil:
		buffers.Put(w.borrowed)
		w.borrowed, w.buf = nil, nil
	case cap(w.buf) > keepUpTo:
		w.buf = nil
	}
	w.buf = w.buf[:0]
}

// room makes the buffer hold n more bytes, at most gatherUpTo.
func (w *Writer) room(n int) error {
	if cap(w.buf)-len(w.buf) >= n {
		return nil
	}
	if len(w.buf)+n > pooled {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.borrowed == nil {
		w.borrowed = buffers.Get().(*[pooled]byte)
		w.buf = append(w.borrowed[:0], w.buf...)
	}
	return nil
}

// SendFile sends n bytes of f from off: few ones by way of the buffer, more by sendfile(2) where the socket can, with what
// stands in the buffer in the same packets. It does not move f's position, so one file serves many connections at once.
// A file that ends early is io.ErrUnexpectedEOF.
func (w *Writer) SendFile(f *os.File, off, n int64) error {
	if n <= gatherUpTo {
		return w.gather(f, off, int(n))
	}
	if len(w.buf) > 0 {
		if err := w.extend(); err != nil {
			return err
		}
		if err := writeMore(w.conn, w.buf); err != nil {
			return err
		}
		w.drop()
	}
	for n > 0 {
		if err := w.extend(); err != nil {
			return err
		}
		sent, err := sendFile(w.conn, gated{f, w.reads}, off, min(n, writeStep))
		w.accepted += sent
		off, n = off+sent, n-sent
		if err != nil {
			return err
		}
		if sent == 0 {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// gather reads n bytes of f into the buffer.
func (w *Writer) gather(f *os.File, off int64, n int) error {
	if err := w.room(n); err != nil {
		return err
	}
	at := len(w.buf)
	w.buf = w.buf[:at+n]
	if got, err := (gated{f, w.reads}).ReadAt(w.buf[at:], off); got < n {
		w.buf = w.buf[:at]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	w.accepted += int64(n)
	if len(w.buf) < flushAbove {
		return nil
	}
	return w.flush()
}

// gated is a file whose reads take a place each.
type gated struct {
	*os.File
	reads ReadGate
}

// ReadAt implements io.ReaderAt.
func (g gated) ReadAt(p []byte, off int64) (int, error) {
	g.reads.BeginRead()
	defer g.reads.EndRead()
	return g.File.ReadAt(p, off)
}

// copyFile is sendFile for sockets and systems without sendfile.
func copyFile(conn net.Conn, f gated, off, n int64) (int64, error) {
	return io.Copy(struct{ io.Writer }{conn}, io.NewSectionReader(f, off, n))
}
