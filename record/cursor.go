package record

import (
	"encoding/binary"
	"errors"
	"io"
)

// windowSize is how much of a decompressed body Judge sees at a time, in bytes.
const windowSize = 32 << 10

var (
	errShort  = errors.New(faultShort)
	errVarint = errors.New(faultVarint)
	errBomb   = errors.New("uncompressed size beyond the guard")
)

// cursor walks records forward through a window. Without a source the window is
// all there is. After a fault every read yields zero and err says why.
type cursor struct {
	buf    []byte // the window's content
	pos    int    // next byte in buf
	base   int64  // bytes of the body before buf
	src    io.Reader
	window []byte // buf's memory when there is a source
	limit  int64  // of bytes that come from src
	err    error
}

// at is the position in the body, in bytes.
func (c *cursor) at() int64 { return c.base + int64(c.pos) }

// fail keeps the first fault.
func (c *cursor) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// fill reads more behind what is left of the window. False: nothing more comes.
func (c *cursor) fill() bool {
	if c.src == nil || c.err != nil {
		return false
	}
	c.base += int64(c.pos)
	left := copy(c.window, c.buf[c.pos:])
	c.buf, c.pos = c.window[:left], 0
	for {
		n, err := c.src.Read(c.window[left:])
		c.buf = c.window[:left+n]
		if err != nil {
			c.src = nil
			if err != io.EOF {
				c.fail(err)
			}
		}
		if c.base+int64(len(c.buf)) > c.limit {
			c.src = nil
			c.fail(errBomb)
			return false
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
}

// varint reads a zigzag number of up to ten bytes. Most have one or two: lengths, deltas within a batch.
func (c *cursor) varint() int64 {
	if b := c.buf[c.pos:]; len(b) > 1 {
		if b[0] < 0x80 {
			c.pos++
			return int64(b[0]>>1) ^ -int64(b[0]&1)
		}
		if b[1] < 0x80 {
			c.pos += 2
			v := uint64(b[0]&0x7f) | uint64(b[1])<<7
			return int64(v>>1) ^ -int64(v&1)
		}
	}
	return c.longVarint()
}

func (c *cursor) longVarint() int64 {
	for len(c.buf)-c.pos < binary.MaxVarintLen64 && c.fill() {
	}
	if c.err != nil {
		return 0
	}
	v, n := binary.Varint(c.buf[c.pos:])
	if n <= 0 {
		if n == 0 {
			c.fail(errShort)
		}
		c.fail(errVarint)
		return 0
	}
	c.pos += n
	return v
}

// skip passes over n bytes.
func (c *cursor) skip(n int64) {
	for n > int64(len(c.buf)-c.pos) {
		n -= int64(len(c.buf) - c.pos)
		c.pos = len(c.buf)
		if !c.fill() {
			c.fail(errShort)
			return
		}
	}
	c.pos += int(n)
}

// peek shows the next n bytes, n at most some hundred, without passing over them.
func (c *cursor) peek(n int) []byte {
	for len(c.buf)-c.pos < n && c.fill() {
	}
	if len(c.buf)-c.pos < n {
		c.fail(errShort)
		return nil
	}
	return c.buf[c.pos : c.pos+n]
}

// end reports that the body ends here and its stream was whole to the end.
func (c *cursor) end() bool { return c.pos == len(c.buf) && !c.fill() && c.err == nil }
