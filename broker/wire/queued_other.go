//go:build !linux

package wire

import "net"

func queued(net.Conn) int { return 0 }
