package partition

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"tidemark/hotlog"
)

// Disk measures the data disk and keeps its ballast; *hotlog.DataDir is one.
type Disk interface {
	// FreeSpace returns free bytes and the disk's size.
	FreeSpace() (free, total int64, err error)
	// Reserve makes the ballast of real space, unless it is there; ReleaseReserve gives it back.
	Reserve(size int64) error
	ReleaseReserve() error
}

// Spare is what lies on the data disk and can be had again: the cache of cold reads.
type Spare interface {
	// Used is how many bytes it takes.
	Used() int64
	// Limit bounds that until the next call, as far as it can, and frees what is too much.
	Limit(bytes int64)
}

var _ Disk = (*hotlog.DataDir)(nil)

// pressure is what a filling disk changes (H18, L1): below the produce mark clients' batches are refused
// before they are appended and active segments are sealed early, so that data can leave; below the
// append mark nothing at all is appended. It ends by itself when space is back. When the disk is all but full,
// by whatever else writes there, the ballast goes, so that state files and a catalog on the same disk can still be
// written while data leaves; it is made again when there is space.
type pressure struct {
	disk                 Disk
	produceMark, endMark int64
	reserve              int64
	spare                Spare // nil: nothing
	out                  *slog.Logger

	// left is how many bytes may be appended before the disk is looked at again: half of what there is to
	// the next mark, so that no speed passes a mark between two looks.
	left atomic.Int64
	news atomic.Bool // the level has changed and nobody has heard it

	released bool // the ballast is known to be gone; only measure uses it

	mu sync.Mutex // one look at a time

	level atomic.Int32 // 0 none, 1 below the produce mark, 2 below the append mark
}

// leastLeft is how much is appended between two looks at least.
const leastLeft = 256 << 10

// refuseProduce says whether a client's append of so many bytes is refused, refuseAppend whether a follower's is.
func (d *pressure) refuseProduce(bytes int) bool { return d.above(0, bytes) }
func (d *pressure) refuseAppend(bytes int) bool  { return d.above(1, bytes) }
func (d *pressure) rollEarly() bool              { return d.level.Load() > 0 }

func (d *pressure) above(level int32, bytes int) bool {
	if d.level.Load() > level {
		return true
	}
	if d.left.Add(-int64(bytes)) < 0 {
		d.look()
	}
	return d.level.Load() > level
}

// full notes that a write met a full disk, whatever the marks say; the next measurement decides again.
func (d *pressure) full() { d.level.CompareAndSwap(0, 1) }

// measure looks at the disk and reports whether the level has changed since the last call.
func (d *pressure) measure() bool {
	if free, total, ok := d.look(); ok {
		d.keepBallast(free, total, d.level.Load())
		if d.spare != nil { // it gives way long before the first mark
			d.spare.Limit(d.spare.Used() + free - 2*min(d.produceMark, total/10))
		}
	}
	return d.news.Swap(false)
}

func (d *pressure) look() (free, total int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	free, total, err := d.disk.FreeSpace()
	if err != nil {
		return 0, 0, false
	}
	end, produce := min(d.endMark, total/20), min(d.produceMark, total/10)
	level, mark := int32(0), produce
	switch {
	case free < end:
		level, mark = 2, 0
	case free < produce:
		level, mark = 1, end
	}
	d.left.Store(max((free-mark)/2, leastLeft))
	old := d.level.Swap(level)
	switch {
	case level > old:
		d.out.Error("the data disk is filling; produce is refused until space is back", "free_bytes", free, "level", level)
	case level < old:
		d.out.Info("the data disk has space again", "free_bytes", free, "level", level)
	}
	if level != old {
		d.news.Store(true)
	}
	return free, total, true
}

// keepBallast gives the ballast back on a disk that is all but full, and makes it where there is space.
func (d *pressure) keepBallast(free, total int64, level int32) {
	size := min(d.reserve, total/50)
	switch {
	case size == 0:
	case free < size/2 && !d.released:
		d.released = true
		d.out.Error("the data disk is full; giving the reserve back", "free_bytes", free, "reserve_bytes", size)
		if err := d.disk.ReleaseReserve(); err != nil {
			d.out.Warn("give the reserve back", "error", err)
		}
	case level == 0 && free-size >= min(d.produceMark, total/10):
		if err := d.disk.Reserve(size); err != nil {
			d.out.Warn("keep a reserve on the data disk", "error", err)
			return
		}
		d.released = false
	}
}
