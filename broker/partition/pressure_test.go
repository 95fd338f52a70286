package partition

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeDisk is a disk of 1000 MiB on which free are free, the ballast not counted.
type fakeDisk struct {
	free    int64
	ballast int64
}

func (d *fakeDisk) FreeSpace() (free, total int64, err error) {
	return d.free - d.ballast, 1000 << 20, nil
}
func (d *fakeDisk) Reserve(size int64) error { d.ballast = size; return nil }
func (d *fakeDisk) ReleaseReserve() error    { d.ballast = 0; return nil }

// A disk fills and gets space again: clients' produce stops at the first mark, everything at the second, the ballast
// goes when hardly a byte is left, and all comes back in the other order.
func TestH18_TwoMarksAndAReserve(t *testing.T) {
	d := &fakeDisk{}
	p := &pressure{disk: d, produceMark: 90 << 20, endMark: 40 << 20, reserve: 10 << 20, out: slog.New(slog.DiscardHandler)}
	for _, row := range []struct {
		free             int64
		produce, appends bool
		ballast          int64
	}{
		{500, true, true, 10},
		{99, false, true, 10}, // 89 MiB and the ballast
		{49, false, false, 10},
		{16, false, false, 10},
		{14, false, false, 0}, // 4 MiB were left
		{2, false, false, 0},
		{45, false, true, 0},
		{95, true, true, 0}, // not for the ballast as well
		{101, true, true, 10},
		{49, false, false, 10},
		{12, false, false, 0},
	} {
		d.free = row.free << 20
		p.measure()
		require.Equal(t, row.produce, !p.refuseProduce(0), "produce at %d MiB", row.free)
		require.Equal(t, row.appends, !p.refuseAppend(0), "append at %d MiB", row.free)
		require.Equal(t, row.ballast<<20, d.ballast, "ballast at %d MiB", row.free)
	}
	d.free = 500 << 20
	p.measure()
	p.full() // a write met a full disk before the next look
	require.True(t, p.refuseProduce(0))
	require.False(t, p.refuseAppend(0))
	p.measure()
	require.False(t, p.refuseProduce(0))
}

// fakeCache takes space of a fakeDisk.
type fakeCache struct {
	disk  *fakeDisk
	bytes int64
}

func (c *fakeCache) Used() int64 { return c.bytes }
func (c *fakeCache) Limit(bytes int64) {
	if over := c.bytes - max(bytes, 0); over > 0 {
		c.bytes -= over
		c.disk.free += over
	}
}

// L2: the cache of cold reads gives way before a client is refused.
func TestL2_TheCacheGoesFirst(t *testing.T) {
	d := &fakeDisk{free: 150 << 20}
	c := &fakeCache{disk: d, bytes: 200 << 20}
	p := &pressure{disk: d, produceMark: 90 << 20, endMark: 40 << 20, spare: c, out: slog.New(slog.DiscardHandler)}
	for d.free > 0 {
		p.measure()
		if p.refuseProduce(0) {
			break
		}
		d.free -= 1 << 20
	}
	require.Zero(t, c.bytes)
	require.InDelta(t, 90<<20, d.free, 2<<20)
}

// A producer that is faster than the looks at the disk passes no mark: what is appended is counted between them.
func TestH18_NoSpeedPassesAMark(t *testing.T) {
	d := &fakeDisk{free: 500 << 20}
	p := &pressure{disk: d, produceMark: 90 << 20, endMark: 40 << 20, out: slog.New(slog.DiscardHandler)}
	p.measure()
	const batch = 1 << 20
	for !p.refuseProduce(batch) {
		d.free -= batch
	}
	require.InDelta(t, 90<<20, d.free, 2*batch)
	for !p.refuseAppend(batch) {
		d.free -= batch
	}
	require.InDelta(t, 40<<20, d.free, 2*batch)
	require.True(t, p.measure(), "the housekeeping hears of it")
	require.False(t, p.measure())
}
