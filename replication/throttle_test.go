package replication

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAThrottleIsPaidOff(t *testing.T) {
	now := time.Unix(1000, 0)
	var a Throttle
	a.Spend(1<<30, now)
	require.Zero(t, a.Pause(now), "no limit is set")
	a.SetRate(1000, now)
	require.Zero(t, a.Pause(now), "what moved before is free")
	a.Spend(500, now)
	require.Equal(t, 500*time.Millisecond, a.Pause(now))
	require.Equal(t, 100*time.Millisecond, a.Pause(now.Add(400*time.Millisecond)))
	now = now.Add(10 * time.Second)
	require.Zero(t, a.Pause(now))
	a.Spend(3000, now)
	require.Equal(t, 3*time.Second, a.Pause(now), "what was not used is not saved up")
	a.SetRate(6000, now)
	require.Equal(t, 500*time.Millisecond, a.Pause(now), "what is owed is paid at the new rate")
	require.Equal(t, 500*time.Millisecond, a.Pause(now.Add(-time.Second)), "a clock that stands still or goes back pays nothing")
	a.SetRate(0, now)
	a.SetRate(1, now)
	require.Zero(t, a.Pause(now), "taking the limit off forgives")
}
