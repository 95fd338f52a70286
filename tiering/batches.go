package tiering

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"tidemark/record"
)

// BatchReader gives the batches of an object in offset order and reads all of the object on the way. It reads ahead, as far
// as its windows reach, and hashes what it has read, each in a goroutine of its own: window after window is read, hashed,
// walked by Next and read into again. Whoever does not ask for batches soon brings it to a stop.
type BatchReader struct {
	in     *Input
	cancel context.CancelFunc
	ended  sync.WaitGroup
	free   chan []byte // windows to read into; nil ones are not made yet
	hashed chan window // in their order; the last one has an error

	now   []byte // the window that Next walks
	rest  []byte // data in it that was not returned
	joint []byte // a batch that lies in several windows
	at    int64  // in the object, where now ends
	err   error  // what all further calls return
}

// window is a piece of an object, or why there is none.
type window struct {
	b        []byte
	err      error
	panicked any // what a driver has panicked with
}

const (
	// windowsAhead is how many windows there are: one each to be read, hashed and walked.
	windowsAhead = 3
	leastWindow  = 32 << 10
)

// ReadBatches begins to read the whole object, through windows of about buffer bytes together; a batch larger than a window
// comes on top. It works until ctx ends or it is closed, which it must be.
func (in *Input) ReadBatches(ctx context.Context, buffer int) *BatchReader {
	size := min(max(int64(buffer/windowsAhead), leastWindow), inspectStep, max(in.row.Bytes, 1))
	ctx, cancel := context.WithCancel(ctx)
	r := &BatchReader{in: in, cancel: cancel, free: make(chan []byte, windowsAhead), hashed: make(chan window, windowsAhead+1)}
	for range windowsAhead {
		r.free <- nil
	}
	read := make(chan window, windowsAhead+1) // one for each window and an error: no goroutine waits to send
	r.ended.Go(func() { r.readAll(ctx, size, read) })
	r.ended.Go(func() { r.hashAll(read) })
	return r
}

// Close ends the reading; when it returns nothing of it is at work, and its last batch holds no longer. It may be called
// again.
func (r *BatchReader) Close() {
	r.cancel()
	r.ended.Wait()
	if r.now != nil {
		r.free <- r.now
	}
	r.now, r.rest, r.err = nil, nil, cmp.Or(r.err, errClosed)
	for len(r.free) > 0 {
		if b := <-r.free; b != nil {
			spareWindows.Put(&b)
		}
	}
}

var errClosed = errors.New("tiering: the batches of an object are read no more")

// spareWindows are for the next objects.
var spareWindows sync.Pool // of *[]byte

func takeWindow(size int64) []byte {
	if b, ok := spareWindows.Get().(*[]byte); ok && int64(cap(*b)) >= size {
		return *b
	}
	return make([]byte, size)
}

// readAll reads the object window by window.
func (r *BatchReader) readAll(ctx context.Context, size int64, to chan<- window) {
	defer close(to)
	for at := int64(0); at < r.in.row.Bytes; {
		var b []byte
		select {
		case b = <-r.free:
		case <-ctx.Done():
			to <- window{err: ctx.Err()}
			return
		}
		if b == nil {
			b = takeWindow(size)
		}
		w := r.in.readWindow(ctx, b[:cap(b)][:min(size, r.in.row.Bytes-at)], at)
		to <- w
		if w.b == nil {
			return
		}
		at += int64(len(w.b))
	}
}

// readWindow reads what lies at a place of the object. A driver that panics does so to whoever asked for the batches.
func (in *Input) readWindow(ctx context.Context, b []byte, at int64) (w window) {
	defer func() {
		if p := recover(); p != nil {
			w = window{panicked: fmt.Sprintf("%v\n%s", p, debug.Stack())}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, in.t.o.PutTimeout)
	defer cancel()
	if err := in.t.rewriteStore.ReadRange(ctx, in.row.Key, at, b); err != nil {
		return window{err: inputError(in.row, err)}
	}
	return window{b: b}
}

// hashAll passes windows on once they are in the sum, and says in the end whether that is the row's.
func (r *BatchReader) hashAll(from <-chan window) {
	sum := sha256.New()
	for w := range from {
		sum.Write(w.b)
		r.hashed <- w
		if w.b == nil {
			return
		}
	}
	err := io.EOF
	if got := [32]byte(sum.Sum(nil)); got != r.in.row.SHA256 {
		err = inputError(r.in.row, fmt.Errorf("%w: SHA-256 %x, its row says %x", errDigest, got, r.in.row.SHA256))
	}
	r.hashed <- window{err: err}
}

// Next returns the next batch, which holds until the next call, and whether it is the object's last;
// io.EOF at the end, when the length and the SHA-256 of the whole object were those of its row (C11):
// what was made of its batches must not be used before. Errors as OpenInput.
func (r *BatchReader) Next(ctx context.Context) (batch []byte, last bool, err error) {
	for len(r.rest) == 0 {
		if err := r.turn(ctx); err != nil {
			return nil, false, err
		}
	}
	batch, err = r.whole(r.rest)
	if err != nil {
		return nil, false, err
	}
	if batch != nil {
		r.rest = r.rest[len(batch):]
		return batch, r.isLast(), nil
	}
	return r.join(ctx)
}

// isLast reports that all data was returned.
func (r *BatchReader) isLast() bool { return len(r.rest) == 0 && r.at >= r.in.row.DataBytes }

// whole is the batch at the front of b, nil if not all of it is there.
func (r *BatchReader) whole(b []byte) ([]byte, error) {
	h, err := record.ParseHeader(b)
	switch {
	case errors.Is(err, record.ErrTruncated):
		return nil, nil
	case err != nil:
		return nil, r.unsound(err)
	case h.Size() > len(b):
		return nil, nil
	}
	return b[:h.Size():h.Size()], nil
}

func (r *BatchReader) unsound(err error) error {
	return inputError(r.in.row, fmt.Errorf("%w: batch before byte %d: %w", errDigest, r.at, err))
}

// join returns the batch of which rest is the beginning, out of this window and those that follow.
func (r *BatchReader) join(ctx context.Context) (batch []byte, last bool, err error) {
	r.joint = r.joint[:0]
	for need := record.HeaderSize; ; {
		n := min(need-len(r.joint), len(r.rest))
		r.joint, r.rest = append(r.joint, r.rest[:n]...), r.rest[n:]
		if len(r.joint) == need {
			h, err := record.ParseHeader(r.joint)
			if err != nil {
				return nil, false, r.unsound(err)
			}
			if need = h.Size(); len(r.joint) == need {
				return r.joint, r.isLast(), nil
			}
		}
		if len(r.rest) > 0 {
			continue
		}
		if r.at >= r.in.row.DataBytes {
			return nil, false, r.unsound(record.ErrTruncated)
		}
		if err := r.turn(ctx); err != nil {
			return nil, false, err
		}
	}
}

// turn gives the window back and waits for the next one; what lies behind the data is only hashed.
func (r *BatchReader) turn(ctx context.Context) error {
	if r.err != nil {
		return r.err
	}
	if r.now != nil {
		r.free <- r.now
		r.now = nil
	}
	var w window
	select {
	case w = <-r.hashed:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	if r.err = w.err; w.err != nil {
		return w.err
	}
	r.now, r.rest = w.b, w.b[:max(min(int64(len(w.b)), r.in.row.DataBytes-r.at), 0)]
	r.at += int64(len(w.b))
	return nil
}
