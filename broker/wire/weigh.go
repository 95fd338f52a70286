package wire

import (
	"encoding/binary"
	"fmt"
)

// Decoding makes values of bytes: an entry of two bytes, all defaults, becomes one of up to a hundred in memory. So
// that memory is bounded by settings and not by what a frame says (R20), a large frame of lists takes its weight from
// a budget before it is decoded, and a produce, whose bytes are records, may name only so many partitions.
const (
	// freeFrame is the size up to which a frame's lists cost nothing worth counting.
	freeFrame = 16 << 10
	// decodeCost is how many bytes of memory one byte of a frame may become; a test compares it with kmsg.
	decodeCost = 64

	// maxEntries bounds the topics, partitions and tags of one produce.
	maxEntries = 1 << 16
	// entryBytes is what an entry has to bring beyond the first few, on average: half a batch header.
	entryBytes  = 32
	freeEntries = 256
)

// weight is what decoding the frame takes from the budget for it, 0 if it is not worth taking.
func weight(key int16, size int, budget int64) int {
	if key == keyProduce || size <= freeFrame {
		return 0
	}
	return int(min(int64(size)*decodeCost, budget))
}

// checkProduce refuses a produce that names more than its bytes can be for. It looks at what follows the request
// header and leaves what is malformed to the decoder, which allocates nothing for a list before it is counted here.
func checkProduce(body []byte, version int16) error {
	limit := min(maxEntries, freeEntries+len(body)/entryBytes)
	w := walker{rest: body, flexible: version >= 9, left: limit}
	if version >= 3 {
		w.skip(w.length())
	}
	w.skip(2 + 4)
	for range w.list() {
		if version >= 13 {
			w.skip(16)
		} else {
			w.skip(w.length())
		}
		for range w.list() {
			w.skip(4)
			w.skip(w.bytes())
			w.tags()
		}
		w.tags()
	}
	w.tags()
	if w.left < 0 {
		return fmt.Errorf("%w: a produce of %d bytes with more than %d topics, partitions and tags", ErrFrame, len(body), limit)
	}
	return nil
}

// walker steps over a request's fields; it stands still once the bytes or the entries have run out.
type walker struct {
	rest     []byte
	flexible bool
	left     int // entries that may still come
}

func (w *walker) skip(n int) {
	if n > len(w.rest) {
		n = len(w.rest)
	}
	w.rest = w.rest[max(n, 0):]
}

func (w *walker) uvarint() int {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 || v > 1<<31 {
		w.rest = nil
		return 0
	}
	w.rest = w.rest[n:]
	return int(v)
}

// length is that of a string, bytes that of other bytes; -1 for null.
func (w *walker) length() int {
	if w.flexible {
		return w.uvarint() - 1
	}
	if len(w.rest) < 2 {
		w.rest = nil
		return 0
	}
	n := int(int16(binary.BigEndian.Uint16(w.rest)))
	w.rest = w.rest[2:]
	return n
}

func (w *walker) bytes() int {
	if w.flexible {
		return w.uvarint() - 1
	}
	if len(w.rest) < 4 {
		w.rest = nil
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(w.rest)))
	w.rest = w.rest[4:]
	return n
}

// list counts a list's entries and returns how many to step over: none where they are too many.
func (w *walker) list() int {
	n := w.bytes()
	if n > len(w.rest) {
		w.rest = nil // the decoder refuses it
		return 0
	}
	w.left -= max(n, 0)
	if w.left < 0 {
		w.rest = nil
		return 0
	}
	return n
}

func (w *walker) tags() {
	if !w.flexible || len(w.rest) == 0 {
		return
	}
	n := w.uvarint()
	w.left -= n
	if w.left < 0 {
		w.rest = nil
		return
	}
	for range n {
		w.uvarint()
		w.skip(w.uvarint())
	}
}
