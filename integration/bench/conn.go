package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn speaks Kafka's protocol and nothing more: what a broker can do is seen through it, not what a client library costs.
type conn struct {
	nc   net.Conn
	r    *bufio.Reader
	out  []byte
	corr int32
	in   []byte
}

func dial(ctx context.Context, address string) (*conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = nc.Close() })
	return &conn{nc: nc, r: bufio.NewReaderSize(nc, 256<<10)}, nil
}

// send writes a request.
func (c *conn) send(req kmsg.Request) error {
	c.corr++
	c.out = kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(c.out[:0], req, c.corr)
	_, err := c.nc.Write(c.out)
	return err
}

// receive reads the next response, without its header, into a buffer that the next one overwrites.
func (c *conn) receive(flexible bool) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	skip := 4
	if flexible {
		skip = 5
	}
	if size < skip || size > 1<<30 {
		return nil, fmt.Errorf("a response of %d bytes", size)
	}
	if cap(c.in) < size {
		c.in = make([]byte, size)
	}
	c.in = c.in[:size]
	if _, err := io.ReadFull(c.r, c.in); err != nil {
		return nil, err
	}
	return c.in[skip:], nil
}

// connections runs work once for a connection to each address until the first ends.
func connections(ctx context.Context, addresses []string, work func(ctx context.Context, i int, c *conn) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := len(addresses)
	ended := make(chan error, n)
	for i, address := range addresses {
		go func() {
			c, err := dial(ctx, address)
			if err == nil {
				err = work(ctx, i, c)
				_ = c.nc.Close()
			}
			ended <- err
		}()
	}
	first := <-ended
	cancel()
	for range n - 1 {
		<-ended
	}
	return first
}
