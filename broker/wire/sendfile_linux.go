package wire

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// sendFile moves up to n bytes from the page cache to the socket. net's own
// use of sendfile goes by the file's position, which concurrent fetches of
// one segment would fight over.
func sendFile(conn net.Conn, f gated, off, n int64) (sent int64, err error) {
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
				f.reads.BeginRead()
				m, err = unix.Sendfile(int(out), int(in), &pos, int(n-sent))
				f.reads.EndRead()
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

// writeMore writes all of p and says that more follows at once, so that it does not leave as a packet of its own.
func writeMore(conn net.Conn, p []byte) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_, err := conn.Write(p)
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		for len(p) > 0 {
			n, err := unix.SendmsgN(int(fd), p, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
			switch {
			case errors.Is(err, unix.EINTR):
				continue
			case errors.Is(err, unix.EAGAIN):
				return false
			case err != nil:
				sendErr = err
				return true
			}
			p = p[n:]
		}
		return true
	})
	return errors.Join(err, sendErr)
}
