// Package rawclient is a Kafka client that hides nothing: it sends kmsg
// requests or any bytes, pipelined as the test likes, and reads answers one by
// one in the order in which they come. Tests of the protocol and the benchmark
// harness use it; it imports nothing of ours.
package rawclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client is one connection. Sending and receiving may happen on two
// goroutines, each on one only.
type Client struct {
	// Timeout bounds each Send and each Recv; a minute at first.
	Timeout time.Duration

	conn    net.Conn
	format  *kmsg.RequestFormatter
	nextID  int32
	pending chan sent
	head    [4]byte
}

// sent is a request whose answer has not come.
type sent struct {
	id   int32
	resp kmsg.Response
}

// Dial connects to addr (host:port) as client id "rawclient".
func Dial(ctx context.Context, addr string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return New(conn), nil
}

// New speaks over an open connection and owns it.
func New(conn net.Conn) *Client {
	return &Client{
		Timeout: time.Minute,
		conn:    conn,
		format:  kmsg.NewRequestFormatter(kmsg.FormatterClientID("rawclient")),
		pending: make(chan sent, 1<<16),
	}
}

// Conn is the connection itself.
func (c *Client) Conn() net.Conn { return c.conn }

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Frame is req as bytes with its length prefix, and the correlation id that
// Send would give it next.
func (c *Client) Frame(req kmsg.Request) []byte {
	return c.format.AppendRequest(nil, req, c.nextID)
}

// Send writes req at the version that is set in it and returns its
// correlation id, without waiting for the answer.
func (c *Client) Send(req kmsg.Request) (id int32, err error) {
	frame := c.Frame(req)
	id = c.nextID
	c.nextID++
	if p, ok := req.(*kmsg.ProduceRequest); !ok || p.Acks != 0 {
		c.pending <- sent{id, req.ResponseKind()}
	}
	return id, c.SendRaw(frame)
}

// SendRaw writes b as it is.
func (c *Client) SendRaw(b []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(b)
	return err
}

// Recv reads the next answer, which must be that of the oldest request that
// was sent and not answered.
func (c *Client) Recv() (kmsg.Response, error) {
	var want sent
	select {
	case want = <-c.pending:
	default:
		return nil, errors.New("no request is waiting for an answer")
	}
	id, rest, err := c.RecvRaw()
	if err != nil {
		return nil, err
	}
	if id != want.id {
		return nil, fmt.Errorf("answer %d came where %d is due", id, want.id)
	}
	if want.resp.IsFlexible() && want.resp.Key() != 18 {
		if len(rest) == 0 || rest[0] != 0 {
			return nil, errors.New("the response header has no empty tag section")
		}
		rest = rest[1:]
	}
	if want.resp.Key() == 18 && len(rest) >= 2 && binary.BigEndian.Uint16(rest) == 35 {
		want.resp.SetVersion(0) // KIP-511
	}
	return want.resp, want.resp.ReadFrom(rest)
}

// RecvRaw reads one frame and returns its correlation id and what follows it.
func (c *Client) RecvRaw() (id int32, rest []byte, err error) {
	if err := c.conn.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return 0, nil, err
	}
	if _, err := io.ReadFull(c.conn, c.head[:]); err != nil {
		return 0, nil, err
	}
	size := int32(binary.BigEndian.Uint32(c.head[:]))
	if size < 4 {
		return 0, nil, fmt.Errorf("an answer of %d bytes", size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return 0, nil, err
	}
	return int32(binary.BigEndian.Uint32(b)), b[4:], nil
}

// Do sends req and reads its answer; nothing else may be outstanding.
func (c *Client) Do(req kmsg.Request) (kmsg.Response, error) {
	if _, err := c.Send(req); err != nil {
		return nil, err
	}
	return c.Recv()
}
