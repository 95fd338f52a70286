package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports lie below those that the kernel gives to outgoing connections, so that nobody takes one between its choice and its
// first use, or while its server is down. Test processes run side by side and so do tests: each process has a block of ports,
// which is that of who listens on the block's first one, and gives each port of it once before it begins anew.
const (
	firstPort, blocks, blockSize = 11_000, 40, 500
)

var ports struct {
	mu    sync.Mutex
	block net.Listener // of the first port; the others follow
	given int
}

// FreePort is a port of 127.0.0.1 that nobody listens on and no other test is given.
func FreePort() (int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for i := 0; ports.block == nil && i < blocks*10; i++ {
		ports.block, _ = listen(firstPort + blockSize*rand.IntN(blocks))
	}
	if ports.block == nil {
		return 0, fmt.Errorf("no free block of ports between %d and %d", firstPort, firstPort+blocks*blockSize)
	}
	first := ports.block.Addr().(*net.TCPAddr).Port
	for range blockSize {
		port := first + 1 + ports.given%(blockSize-1)
		ports.given++
		if l, err := listen(port); err == nil {
			_ = l.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", first, first+blockSize)
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
}
