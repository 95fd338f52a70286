package hotlog

import (
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// sendChunk bounds one sendfile(2), so that a slow disk holds its place among the
// reads in flight for a bounded time.
const sendChunk = 1 << 20

// sendFile sends by sendfile(2) with an explicit offset: the descriptor's own
// position is shared with other readers. done is false if w is no TCP connection;
// nothing was sent then.
func sendFile(w io.Writer, s *Section, off, n int64) (sent int64, done bool, err error) {
	conn, ok := w.(*net.TCPConn)
	if !ok {
		return 0, false, nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, true, err
	}
	in := int(s.File.Fd())
	var failed error
	err = raw.Write(func(out uintptr) bool {
		for sent < n {
			pos := s.Pos + off + sent
			s.files.BeginRead()
			m, err := unix.Sendfile(int(out), in, &pos, int(min(n-sent, sendChunk)))
			s.files.EndRead()
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				return false
			case err != nil:
				failed = err
				return true
			case m == 0:
				failed = io.ErrUnexpectedEOF
				return true
			}
			sent += int64(m)
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return sent, true, err
}
