package wire

import (
	"context"
	"errors"
	"os"
	"time"
)

// An answer is in memory as values while it is built, then as bytes until its peer has taken them. Tens of bytes ask for
// megabytes, so the large ones of all connections together have a bound (R20): what one takes is taken before it is
// begun and given back once it is written. A connection has one of them at a time, begun when all before it are
// answered, so that none waits in memory behind a long poll.
const (
	// freeAnswer is the size up to which an answer costs nothing worth counting.
	freeAnswer = 16 << 10
	// middlingPart is what part of all bytes an answer may be that does not wait behind larger ones.
	middlingPart = 64

	// slowReads is into how many parts WriteTimeout is divided to see whether a peer takes its large answer: one that has
	// taken nothing in such a time, or is late (readerPace), is given up while others wait for the bytes.
	slowReads = 30
	// readerPace is what a peer has to take in a second, while others wait, of an answer that is counted.
	readerPace = 1 << 20
)

// answerBudget is the bytes of large answers that all connections of a listener may hold; a quarter is for middling ones.
// Smaller ones go first: who asks for little does not wait for all who ask for much.
type answerBudget struct{ middling, large *Budget }

func newAnswerBudget(size int64) answerBudget {
	a := answerBudget{NewBudget(size / 4), NewBudget(size - size/4)}
	a.middling.smallFirst, a.large.smallFirst = true, true
	return a
}

// take takes what an answer of n bytes may hold; one that is larger than all there is has all there is. Whoever gets an
// error still releases the hold.
func (a answerBudget) take(ctx context.Context, n int) (*hold, error) {
	b := a.large
	if size := a.middling.size + a.large.size; int64(n) <= size/middlingPart {
		b = a.middling
	}
	h := b.hold()
	return h, h.take(ctx, int(min(int64(n), b.size)))
}

// shrink gives back what is held beyond n bytes.
func (h *hold) shrink(n int) {
	b := h.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if over := h.bytes - int64(n); over > 0 {
		h.bytes -= over
		b.used -= over
		b.pumpLocked()
	}
}

// beginAnswer waits until the connection may hold an answer of n bytes. The hold, nil for a small one, is to be released
// after an error too.
func (c *Conn) beginAnswer(ctx context.Context, n int) (*hold, error) {
	if n <= freeAnswer {
		return nil, nil
	}
	for c.inFlight.Load() > 0 {
		select {
		case <-c.drained:
		case <-c.dead:
			return nil, errGone
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.listener.answers.take(ctx, n)
}

// slow is a peer's progress with an answer that is counted.
type slow struct {
	held  *hold
	moved time.Time // when it took some of it
	due   time.Time // when it should have taken all
}

// sendHeld writes what stands in the buffer, an answer that holds bytes.
func (w *Writer) sendHeld(held *hold) error {
	held.shrink(cap(w.buf))
	now := time.Now()
	w.slow = &slow{held, now, now.Add(w.timeout/slowReads + time.Duration(len(w.buf)/readerPace)*time.Second)}
	err := w.flush()
	w.slow = nil
	return err
}

// step is how long a peer may take none of the bytes that are to be written.
func (w *Writer) step() time.Duration {
	if w.slow != nil {
		return w.timeout / slowReads
	}
	return w.timeout
}

// goOn reports whether the peer is waited for after a write that took n bytes and ended with err.
func (s *slow) goOn(n int, err error, timeout time.Duration) bool {
	if s == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	now := time.Now()
	if n > 0 {
		s.moved = now
	}
	if now.Sub(s.moved) >= timeout {
		return false
	}
	return n > 0 && now.Before(s.due) || !s.held.budget.contended()
}
