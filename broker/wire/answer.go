package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// write sends the answers in request order until the reader has closed the
// queue. After a failure, which ends what the reader waits for (gone), it goes
// on taking slots, so that the reader is never stuck and every body is released.
func (c *Conn) write(gone func()) (err error) {
	w := &Writer{conn: c.nc, timeout: c.opts.WriteTimeout, reads: c.opts.Reads}
	for s := range c.slots {
		if err != nil {
			s.reply.release()
			c.answered(&s)
			continue
		}
		if err = c.answer(w, &s); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = faultf(reasonSlowReader, "the peer does not take its answers: %w", err)
			}
			gone()
			c.kill()
			w.buf = nil
		}
		c.answered(&s)
	}
	if err != nil {
		return err
	}
	if err = w.flush(); err != nil {
		gone()
	}
	return err
}

func (c *Conn) answered(s *slot) {
	s.held.release()
	if c.inFlight.Add(-1) == 0 {
		select {
		case c.drained <- struct{}{}:
		default:
		}
	}
	if s.other {
		<-c.others
	}
}

// answer writes one answer, waiting for it if need be.
func (c *Conn) answer(w *Writer, s *slot) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = faultf(reasonPanic, "panic while writing an answer: %v\n%s", p, debug.Stack())
		}
	}()
	r, err := c.ready(w, s.reply)
	if err != nil {
		return err
	}
	before := w.accepted
	switch r.kind {
	case replyClose:
		if err := w.flush(); err != nil {
			return err
		}
		if r.err != nil {
			return r.err
		}
		return faultf(reasonHandler, "%s", r.reason)
	case replyResponse:
		w.response(s, r.resp)
		if s.held != nil {
			s.reply, r = Reply{}, Reply{} // the values go while the bytes leave
			err = w.sendHeld(s.held)
		}
	case replyBody:
		if err := w.body(s, r.body); err != nil {
			return err
		}
	}
	m := c.opts.Metrics
	m.bytesOut.Add(float64(w.accepted - before))
	m.seconds[s.key].Observe(time.Since(s.began).Seconds())
	if err == nil && (len(c.slots) == 0 || len(w.buf) >= flushAbove) {
		err = w.flush()
	}
	c.active.Store(int64(time.Since(c.began)))
	return err
}

// ready waits for a pending answer. What stands in the buffer leaves first:
// an answer never waits for a later one.
func (c *Conn) ready(w *Writer, r Reply) (Reply, error) {
	if r.kind != replyLater {
		return r, nil
	}
	select {
	case got := <-r.pending.ch:
		r.pending.abandon()
		return got, nil
	default:
	}
	if err := w.flush(); err != nil {
		r.pending.abandon()
		return Reply{}, err
	}
	select {
	case got := <-r.pending.ch:
		r.pending.abandon()
		return got, nil
	case <-c.dead:
		r.pending.abandon()
		return Reply{}, errGone
	}
}

// errGone ends a writer whose peer is gone; it is nobody's fault.
var errGone = errors.New("connection closed")

// header appends length and response header; size is that of what follows.
func (w *Writer) header(s *slot, size int) {
	size += 4
	if s.flexible {
		size++
	}
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(size))
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(s.corr))
	if s.flexible {
		w.buf = append(w.buf, 0)
	}
}

func (w *Writer) response(s *slot, resp kmsg.Response) {
	start := len(w.buf)
	w.header(s, 0)
	w.buf = resp.AppendTo(w.buf)
	binary.BigEndian.PutUint32(w.buf[start:], uint32(len(w.buf)-start-4))
	w.accepted += int64(len(w.buf) - start)
}

func (w *Writer) body(s *slot, b Body) error {
	defer b.Release()
	size := b.Size()
	start := len(w.buf)
	w.header(s, size)
	w.accepted += int64(len(w.buf) - start)
	before := w.accepted
	if err := b.WriteTo(w); err != nil {
		return err
	}
	if got := w.accepted - before; got != int64(size) {
		return fmt.Errorf("an answer of %d bytes wrote %d", size, got)
	}
	return nil
}
