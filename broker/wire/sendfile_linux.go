package wire

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// sendFile moves up to n bytes from the page cache to the socket. net's own
// use of sendfile goes by the file's position, which concurrent fetches of
// one segment would fight over.
func sendFile(conn net.Conn, f *os.File, off, n int64) (sent int64, err error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return copyFile(conn, f, off, n)
	}
	src, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	dst, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	var sendErr error
	ctlErr := src.Control(func(in uintptr) {
		sendErr = dst.Write(func(out uintptr) bool {
			for sent < n {
				pos := off + sent
				var m int
				m, err = unix.Sendfile(int(out), int(in), &pos, int(n-sent))
				if m > 0 {
					sent += int64(m)
				}
				switch {
				case errors.Is(err, unix.EINTR):
					continue
				case errors.Is(err, unix.EAGAIN):
					err = nil
					return false
				case err != nil || m == 0:
					return true
				}
			}
			return true
		})
	})
	return sent, errors.Join(err, sendErr, ctlErr)
}
