package fetcher

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAnswer is the largest answer that is read: one batch may be as large as a request.
const maxAnswer = 1 << 30

// Conn is a connection to another broker; one request at a time.
type Conn struct {
	nc     net.Conn
	format *kmsg.RequestFormatter
	id     int32
	out    []byte
	in     []byte
	keep   int // the input buffer is not kept above this
}

// NewConn speaks over nc and owns it.
func NewConn(nc net.Conn, client string, keep int) *Conn {
	return &Conn{nc: nc, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)), keep: keep}
}

// Close closes the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// Do sends req and reads its answer into resp, within timeout and until ctx ends. The answer's byte slices are
// valid until the next Do. After an error the connection is of no use.
func (c *Conn) Do(ctx context.Context, req kmsg.Request, resp kmsg.Response, timeout time.Duration) error {
	if err := c.nc.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) })()
	c.id++
	c.out = c.format.AppendRequest(c.out[:0], req, c.id)
	if _, err := c.nc.Write(c.out); err != nil {
		return err
	}
	body, err := c.read()
	if err != nil {
		return err
	}
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() {
		if len(body) == 0 || body[0] != 0 {
			return fmt.Errorf("answer to %s: unexpected header tags", kmsg.NameForKey(req.Key()))
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return fmt.Errorf("answer to %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return nil
}

func (c *Conn) read() ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.nc, head[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if id := int32(binary.BigEndian.Uint32(head[4:])); size < 0 || size > maxAnswer || id != c.id {
		return nil, fmt.Errorf("an answer of %d bytes to request %d where %d is due", size, id, c.id)
	}
	if cap(c.in) < size || cap(c.in) > c.keep && size <= c.keep {
		c.in = make([]byte, max(size, min(c.keep, 64<<10)))
	}
	c.in = c.in[:size]
	_, err := io.ReadFull(c.nc, c.in)
	return c.in, err
}
