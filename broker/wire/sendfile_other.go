//go:build !linux

package wire

import "net"

func sendFile(conn net.Conn, f gated, off, n int64) (int64, error) {
	return copyFile(conn, f, off, n)
}

func writeMore(conn net.Conn, p []byte) error {
	_, err := conn.Write(p)
	return err
}
