package main

import (
	"context"
	"net"
	"sync"
	"time"
)

// A store that is reached over a network: what comes back from it shares one line. Cold replay is measured through it too,
// since on one machine it is the processor that store, broker and client share.
const (
	linkRate  = 250e6                // bytes a second, 2 Gbit/s
	linkDelay = 5 * time.Millisecond // each way
)

// link forwards connections to a server, its answers at linkRate in all and everything linkDelay late.
type link struct {
	listener net.Listener
	server   string

	mu   sync.Mutex // guards free
	free time.Time  // when the line is idle again
}

// newLink listens until ctx ends.
func newLink(ctx context.Context, server string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, server: server}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go k.forward(ctx, c)
		}
	}()
	return k, nil
}

func (k *link) address() string { return k.listener.Addr().String() }

func (k *link) forward(ctx context.Context, client net.Conn) {
	server, err := net.Dial("tcp", k.server)
	if err != nil {
		_ = client.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { carry(server, client, func(int) time.Time { return time.Now() }) })
	both.Go(func() { carry(client, server, k.reserve) })
	both.Wait()
}

// reserve gives n bytes their turn on the line and says when the last of them has left it.
func (k *link) reserve(n int) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.free.Before(now) {
		k.free = now
	}
	k.free = k.free.Add(time.Duration(float64(n) / linkRate * float64(time.Second)))
	return k.free
}

// carry copies until one side is closed, each piece linkDelay after its turn.
func carry(to, from net.Conn, turn func(n int) time.Time) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 64)
	go func() {
		defer close(pieces)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				pieces <- piece{b[:n], turn(n).Add(linkDelay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range pieces {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.bytes); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	for range pieces {
	}
}
