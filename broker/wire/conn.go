package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// readAhead is the size of a connection's read buffer, the only request bytes
// that are read without a budget.
const readAhead = 4 << 10

// maxOthers is how many answers to requests other than produce and fetch may wait on one connection before the next such
// request is begun: tens of bytes may ask for megabytes, which a peer that does not read, or that sent a long poll before,
// would leave in memory (R20). Kafka begins one request at a time.
const maxOthers = 4

// Conn is one client connection.
type Conn struct {
	id       int64
	listener *listener
	nc       net.Conn
	remote   netip.AddrPort
	opts     *Options
	log      *slog.Logger

	// slots holds the answers in request order; the reader fills and closes
	// it, the writer empties it.
	slots chan slot
	// others holds one entry for each begun request that maxOthers bounds, until it is answered.
	others chan struct{}
	// drained tells the reader that all it has begun is answered; inFlight says whether it still is.
	drained chan struct{}
	// active is when bytes last moved, as time since the connection began.
	active   atomic.Int64
	inFlight atomic.Int64
	began    time.Time

	// dead is closed when no answer can or shall be delivered any more.
	dead     chan struct{}
	deadOnce sync.Once

	// clientID is the last seen one; only the reader uses it.
	clientID string
}

// slot is the place of one request's answer.
type slot struct {
	reply    Reply
	key      int
	other    bool  // it has an entry in others
	held     *hold // what it takes of the bytes for large answers, or nil
	corr     int32
	flexible bool
	began    time.Time
}

// ID is unique among the connections of the process.
func (c *Conn) ID() int64 { return c.id }

// Listener is the name of the listener that accepted the connection.
func (c *Conn) Listener() string { return c.listener.opts.Name }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.remote }

// fault is why a connection is closed by us; reason is a metric label.
type fault struct {
	reason string
	err    error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultf(reason, format string, args ...any) error {
	return &fault{reason, fmt.Errorf(format, args...)}
}

// serve owns the connection until both its goroutines have ended.
func (c *Conn) serve(ctx context.Context, h Handler) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopWake := context.AfterFunc(ctx, func() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) })
	defer stopWake()

	c.others, c.drained = make(chan struct{}, maxOthers), make(chan struct{}, 1)
	writerDone := make(chan struct{})
	go func() {
		defer close(writerDone)
		if err := c.write(cancel); err != nil {
			c.report(err)
		}
		c.kill()
	}()
	err := c.read(ctx, h)
	var f *fault
	switch {
	case errors.As(err, &f):
		// What came before the fault was understood and is answered.
		c.slots <- slot{reply: Reply{kind: replyClose, reason: f.reason, err: f}}
	case ctx.Err() == nil:
		// The peer is gone: its waits end now.
		cancel()
		c.kill()
	}
	close(c.slots)
	<-writerDone
}

// kill gives the connection up; the socket's error ends both goroutines.
func (c *Conn) kill() {
	c.deadOnce.Do(func() {
		close(c.dead)
		_ = c.nc.Close()
	})
}

func (c *Conn) report(err error) {
	var f *fault
	if !errors.As(err, &f) {
		c.log.Debug("kafka connection lost", "remote", c.remote, "err", err)
		return
	}
	c.opts.Metrics.closed[f.reason].Inc()
	if f.reason == reasonIdle {
		c.log.Debug("kafka connection closed", "remote", c.remote, "reason", f.reason)
		return
	}
	c.log.Warn("kafka connection closed", "listener", c.Listener(), "remote", c.remote, "reason", f.reason, "err", f.err)
}

// read takes frames until the peer is gone, ctx ends or a fault is found.
func (c *Conn) read(ctx context.Context, h Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = faultf(reasonPanic, "panic while handling a request: %v\n%s", p, debug.Stack())
		}
	}()
	br := bufio.NewReaderSize(c.nc, readAhead)
	for first := true; ; first = false {
		if err := c.awaitByte(ctx, br, first); err != nil {
			return err
		}
		frame, held, err := c.readFrame(ctx, br)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
				return faultf(reasonSlowWriter, "a request did not arrive in time: %w", err)
			}
			return err
		}
		next, err := c.begin(ctx, h, frame, held)
		if err != nil {
			return err
		}
		// Nothing is held while this waits for an answer to leave.
		c.slots <- next
	}
}

// begin parses one frame and lets the handler start it.
func (c *Conn) begin(ctx context.Context, h Handler, frame *[]byte, held *hold) (slot, error) {
	began := time.Now()
	c.active.Store(int64(began.Sub(c.began)))
	size := len(*frame)
	if took := weight(readHeader(*frame).key, size, c.listener.decode.size); took > 0 {
		decoding := c.listener.decode.hold()
		defer decoding.release()
		if err := decoding.take(ctx, took); err != nil {
			putBuffer(frame)
			held.release()
			return slot{}, err
		}
	}
	req, ok, err := parseRequest(*frame, c.clientID, h.Supports)
	if err != nil {
		putBuffer(frame)
		held.release()
		return slot{}, &fault{reasonFrame, err}
	}
	req.buf, req.held = frame, held
	if req.Body != nil {
		c.clientID = req.ClientID
	}
	m := c.opts.Metrics
	key := m.slot(req.Key)
	m.requests[key].Inc()
	m.bytesIn.Add(float64(size + 4))
	var answer *hold
	kept := false
	defer func() {
		if !kept {
			answer.release()
		}
	}()
	if ok && isOther(req.Key) {
		if answer, err = c.beginAnswer(ctx, h.AnswerSize(req)); err != nil {
			req.Release()
			return slot{}, err
		}
	}
	reply := c.handle(ctx, h, req, ok)
	if reply.kind == replyClose {
		return slot{}, faultf(reasonHandler, "%s v%d: %s", kmsg.NameForKey(req.Key), req.Version, reply.reason)
	}
	c.inFlight.Add(1)
	kept = true
	return slot{reply: reply, key: key, other: isOther(req.Key), held: answer, corr: req.CorrelationID, flexible: req.flexible, began: began}, nil
}

// handle gives the request to the handler. What it does not keep goes back to the budget, after a panic too.
func (c *Conn) handle(ctx context.Context, h Handler, req *Request, ok bool) Reply {
	handled := false
	defer func() {
		if !handled || !req.retained {
			req.Release()
		}
	}()
	var reply Reply
	if ok {
		reply = h.Handle(ctx, c, req)
	} else {
		reply = h.Refuse(c, req)
	}
	handled = true
	return reply
}

// awaitByte waits for the first byte of the next frame. A connection with an
// answer outstanding, or that has sent something lately, is not idle.
func (c *Conn) awaitByte(ctx context.Context, br *bufio.Reader, first bool) error {
	limit := c.opts.IdleTimeout
	if first {
		limit = c.opts.FirstRequestTimeout
	}
	wait := limit
	for {
		if err := c.nc.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, err := br.Peek(1)
		if err == nil {
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
			return err
		}
		idle := time.Since(c.began) - time.Duration(c.active.Load())
		switch {
		case c.inFlight.Load() > 0:
			wait = limit
		case idle >= limit:
			return faultf(reasonIdle, "idle for %v", idle.Round(time.Millisecond))
		default:
			wait = limit - idle
		}
	}
}

// readFrame reads the frame whose first byte has come. One that fits into the read-ahead costs no budget, so
// that small requests go on whatever the large ones of others hold.
func (c *Conn) readFrame(ctx context.Context, br *bufio.Reader) (*[]byte, *hold, error) {
	if err := c.allow(ctx, c.opts.ReadTimeout); err != nil {
		return nil, nil, err
	}
	prefix, err := br.Peek(4)
	if err != nil {
		return nil, nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(prefix)))
	if size < minFrame || size > c.opts.MaxRequestBytes {
		return nil, nil, faultf(reasonFrame, "%w: a frame of %d bytes (largest %d)", ErrFrame, size, c.opts.MaxRequestBytes)
	}
	prefix, err = br.Peek(4 + minFrame)
	if err != nil {
		return nil, nil, err
	}
	h := readHeader(prefix[4:])
	budget := c.listener.produce
	if h.key != keyProduce {
		budget = c.listener.other
		if size > c.opts.MaxOtherRequestBytes {
			return nil, nil, faultf(reasonFrame, "%w: %s of %d bytes (largest %d)", ErrFrame, kmsg.NameForKey(h.key), size, c.opts.MaxOtherRequestBytes)
		}
	}
	if isOther(h.key) {
		if err := c.beginOther(ctx); err != nil {
			return nil, nil, err
		}
	}
	if _, err := br.Peek(min(4+size, readAhead)); err != nil {
		return nil, nil, err
	}
	_, _ = br.Discard(4)
	if 4+size <= readAhead {
		buf := getBuffer(size)
		_, err := io.ReadFull(br, *buf)
		return buf, nil, err
	}
	held := budget.hold()
	buf, err := c.readSteps(ctx, br, held, size)
	if err != nil {
		held.release()
		return nil, nil, err
	}
	return buf, held, nil
}

// isOther reports a request that maxOthers bounds. Produce brings more bytes than it is answered; what fetches hold has
// bounds of its own.
func isOther(key int16) bool { return key != keyProduce && key != keyFetch }

// beginOther waits until one more of the others may be begun.
func (c *Conn) beginOther(ctx context.Context) error {
	select {
	case c.others <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.others <- struct{}{}:
		return c.allow(ctx, c.opts.ReadTimeout) // the time was ours, not the peer's
	case <-c.dead:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Where the budget has little room left, a large frame is read in steps, each four times what has arrived, here or in the
// socket: its sender then holds no more of the budget than four times what it has really sent.
const (
	firstStep  = 16 << 10
	stepGrowth = 4
)

// readSteps reads a frame of size bytes, taking them, or the bytes of each step, from the budget before they are read. A
// step has a third of ReadTimeout, and a second for each MiB; the time spent waiting for the budget is ours,
// not the peer's.
func (c *Conn) readSteps(ctx context.Context, br *bufio.Reader, held *hold, size int) (*[]byte, error) {
	if held.takeAtOnce(size) {
		buf := getBuffer(size)
		if err := c.readStep(ctx, br, held.budget, *buf); err != nil {
			putBuffer(buf)
			return nil, err
		}
		return buf, nil
	}
	buf, have := getBuffer(0), 0
	for have < size {
		next := min(size, max(firstStep, (have+br.Buffered()+queued(c.nc))*stepGrowth))
		if err := held.take(ctx, next-have); err != nil {
			putBuffer(buf)
			return nil, err
		}
		grown := getBuffer(next)
		copy(*grown, (*buf)[:have])
		putBuffer(buf)
		buf = grown
		if err := c.readStep(ctx, br, held.budget, (*buf)[have:next]); err != nil {
			putBuffer(buf)
			return nil, err
		}
		have = next
	}
	return buf, nil
}

// stalls is into how many parts ReadTimeout is divided to see whether a sender gets on: one that brings less
// than a first step in such a time is given up while others wait for the budget that it holds.
const stalls = 15

// readStep fills dst within the step's time.
func (c *Conn) readStep(ctx context.Context, br *bufio.Reader, budget *Budget, dst []byte) error {
	end := time.Now().Add(c.opts.ReadTimeout/3 + time.Duration(len(dst)>>20)*time.Second)
	for len(dst) > 0 {
		if err := c.allow(ctx, min(c.opts.ReadTimeout/stalls, time.Until(end))); err != nil {
			return err
		}
		n, err := io.ReadAtLeast(br, dst, min(len(dst), firstStep)) // what more has come costs no other read(2)
		dst = dst[n:]
		late := errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(end) && !budget.contended()
		if err != nil && !late {
			return err
		}
	}
	return nil
}

func (c *Conn) allow(ctx context.Context, d time.Duration) error {
	if err := c.nc.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	return ctx.Err()
}
