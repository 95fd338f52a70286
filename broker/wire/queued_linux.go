package wire

import (
	"net"

	"golang.org/x/sys/unix"
)

// queued is how many bytes have come to the socket and were not read yet.
func queued(conn net.Conn) (n int) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	if err := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }); err != nil {
		return 0
	}
	if err != nil {
		return 0
	}
	return n
}
