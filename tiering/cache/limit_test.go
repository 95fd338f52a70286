package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// L2: a cache whose disk is wanted for something else gives up what nobody holds, the longest idle first, stays below
// the limit and grows again when it is lifted. Reads go on all the time.
func TestL2_TheCacheShrinksAndGrowsAgain(t *testing.T) {
	n := int(2 * leastBound / room(1))
	c := open(t, Options{MaxBytes: room(int64(n))})
	var s store
	for i := range n {
		mustGet(t, c, s.request(key(i))).Release()
	}
	require.Equal(t, room(int64(n)), c.Used())
	held := mustGet(t, c, s.request(key(0)))
	last := mustGet(t, c, s.request(key(n-1)))
	last.Release()

	c.Limit(-1)
	require.LessOrEqual(t, c.Used(), int64(leastBound))
	require.Greater(t, c.Used(), int64(leastBound)-room(1))
	requireContent(t, held, key(0))
	held.Release()
	before := s.downloads.Load()
	mustGet(t, c, s.request(key(n-1))).Release()
	require.Equal(t, before, s.downloads.Load(), "what was read last is kept")
	for i := range n {
		mustGet(t, c, s.request(key(i))).Release()
		require.LessOrEqual(t, c.Used(), int64(leastBound))
	}
	c.Limit(1 << 40)
	for i := range n {
		mustGet(t, c, s.request(key(i))).Release()
	}
	require.Equal(t, room(int64(n)), c.Used())
}
