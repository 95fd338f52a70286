package pace

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	floor = 64 << 20
	step  = 256 << 10
)

// replayFor sends cold bytes for a span on a machine that lets sleepers wait late, and returns how many.
func replayFor(p *Pace, span, late time.Duration, producing bool) (sent int) {
	p.sleep = func(d time.Duration) { time.Sleep(d + late) }
	for end := time.Now().Add(span); time.Now().Before(end); sent += step {
		if producing {
			p.hot.Producing()
		}
		p.Step(step)
		time.Sleep(100 * time.Microsecond) // the work itself: 2.6 GB/s
	}
	return sent
}

func TestReplaysGiveWayToProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(&Traffic{}, floor)
		full := replayFor(c, time.Second, 50*time.Millisecond, false)
		require.Greater(t, full, 2<<30, "without producers a replay takes what there is")

		replayFor(c, 4*time.Second, 5*time.Millisecond, true) // it takes a while to find the rate
		late := replayFor(c, 4*time.Second, 5*time.Millisecond, true)
		require.InDelta(t, 4*floor, late, floor, "a machine that is late leaves the least")

		replayFor(c, 4*time.Second, 0, true)
		prompt := replayFor(c, 4*time.Second, 0, true)
		require.Greater(t, prompt, 20*floor, "one that is not gives more and more")

		time.Sleep(2 * hotFor)
		require.InDelta(t, full, replayFor(c, time.Second, 50*time.Millisecond, false), float64(full)/20, "when they have gone, all")
	})
}
