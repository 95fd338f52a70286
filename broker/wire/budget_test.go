package wire

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Peers that begin large frames and say no more hold nothing that others wait for: neither small requests nor
// large ones (R20). Frames that have begun do not wait for each other for ever.
func TestHalfFramesHoldUpNobody(t *testing.T) {
	const size = 1 << 20
	h := start(t, Options{
		MaxRequestBytes: size, MaxOtherRequestBytes: size, ProduceBytes: 2 * size, OtherBytes: 2 * size,
		ReadTimeout: 15 * time.Second,
	}, func(_ context.Context, _ *Conn, req *Request) Reply { return Respond(req.Body.ResponseKind()) })
	big := make([]byte, size-100)
	for i := range 40 {
		c := h.dial()
		frame := c.Frame(produce(-1, big))
		if i%2 == 0 {
			frame = append(frame[:4], c.Frame(metadata(9))[4:]...) // the length of the one, the head of the other
		}
		require.NoError(t, c.SendRaw(frame[:min(len(frame), 30)]))
	}
	for range 10 { // these have really sent a part
		c := h.dial()
		require.NoError(t, c.SendRaw(c.Frame(produce(-1, big))[:100_000]))
	}
	var all sync.WaitGroup
	for range 6 {
		c := h.dial()
		c.Timeout = time.Minute
		all.Go(func() {
			for range 3 {
				if _, err := c.Do(metadata(9)); err != nil {
					t.Error(err)
				}
				if _, err := c.Do(produce(-1, big)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestBudgetIsNeverPassed(t *testing.T) {
	b := NewBudget(100)
	b.sparing(40)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 20 {
				x := b.hold()
				for _, n := range []int{4, 12, 24} {
					if err := x.take(t.Context(), n); err != nil {
						t.Error(err)
					}
					b.mu.Lock()
					if b.used > b.size {
						t.Errorf("%d of %d", b.used, b.size)
					}
					b.mu.Unlock()
				}
				x.release()
			}
		})
	}
	all.Wait()
	require.Zero(t, b.used)

	full := b.hold()
	require.NoError(t, full.take(t.Context(), 60))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.hold().take(gone, 10), context.Canceled)
	full.release()
	require.NoError(t, b.hold().take(t.Context(), 60), "who gave up is not waited for")
}

func TestATakeAtOnceLeavesThreeQuarters(t *testing.T) {
	b := NewBudget(100)
	first, second := b.hold(), b.hold()
	require.True(t, first.takeAtOnce(20))
	require.False(t, second.takeAtOnce(6), "26 of 100")
	require.NoError(t, second.take(t.Context(), 80))
	waiting, cancel := context.WithCancel(t.Context())
	waits := b.hold()
	ended := make(chan error)
	go func() { ended <- waits.take(waiting, 10) }()
	require.Eventually(t, b.contended, time.Minute, time.Millisecond)
	second.release()
	require.NoError(t, <-ended)
	cancel()
	waits.release()
	first.release()
	require.Zero(t, b.used)
	require.True(t, first.takeAtOnce(25))
	first.release()

	b.sparing(90)
	require.False(t, first.takeAtOnce(11), "who may use what is spared would pass the budget")
	require.True(t, first.takeAtOnce(10))
}

// A client that batches for many partitions sends more than 4 MiB at once.
func TestLargeBuffersAreUsedAgain(t *testing.T) {
	const size = 20 << 20
	allocated := testing.AllocsPerRun(100, func() { putBuffer(getBuffer(size)) })
	require.Less(t, allocated, 0.5)
}
