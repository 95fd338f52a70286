package tiering

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However long the catalog was away, uploads try again within a second after it is back; while it is away one attempt a
// second speaks for all partitions.
func TestK3_OnePauseForAllPartitions(t *testing.T) {
	var o outage
	now := time.Now()
	require.Zero(t, o.left(now))
	for i := range 600 {
		wait, failures := o.seen(now, 250*time.Millisecond)
		require.Equal(t, i+1, failures)
		require.LessOrEqual(t, wait, outagePause)
		require.Equal(t, wait, o.left(now), "the others wait as long")
		require.Positive(t, o.left(now.Add(wait/2)))
		now = now.Add(wait)
		require.Zero(t, o.left(now))
	}
	o.over()
	wait, failures := o.seen(now, 250*time.Millisecond)
	require.Equal(t, 1, failures)
	require.LessOrEqual(t, wait, 250*time.Millisecond)
}
