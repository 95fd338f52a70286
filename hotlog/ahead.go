package hotlog

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
)

// A file system that finds blocks for one page after the other takes up to a third of the time of a write(2) for it. So an
// active segment that grows has blocks reserved ahead of its end, a step at a time. Its size does not change by it: nobody
// who reads or recovers it sees them. What is left is given back when the segment is sealed, truncated, closed or rests,
// near a full disk, and by the start after a crash.
const (
	// aheadAfter is how much is appended to a segment, since its file was made or opened to be written, before anything is
	// reserved: many small partitions reserve nothing.
	aheadAfter = 1 << 20
	// aheadStep bounds a step, and with it what one partition holds idle. A step is no larger than the segment is.
	aheadStep = 4 << 20
	// aheadShare is the part of the space above the floor (aheads.floor) that all logs hold at most.
	aheadShare = 16
	// aheadSlack is what a file takes beyond its size by itself: the rest of its last block, and its own tables.
	aheadSlack = 64 << 10
)

// aheads is what the logs of a data directory have reserved. Its lock comes after Log.mu.
type aheads struct {
	space func() (free, total int64, err error)
	mark  int64       // DataDirOptions.ProduceMark
	never atomic.Bool // the file system does not do it

	after, step int64 // aheadAfter, aheadStep

	mu   sync.Mutex
	held map[*seg]int64 // the last step of each active segment; what is left of it is not more
	sum  int64
}

func newAheads(path string, mark int64) *aheads {
	return &aheads{
		space: func() (int64, int64, error) { return disk.Space(path) },
		mark:  mark, after: aheadAfter, step: aheadStep, held: map[*seg]int64{},
	}
}

// floor is the free space below which nothing is reserved: half as much again as where produce is refused.
func (a *aheads) floor(total int64) int64 { return min(a.mark, total/10) * 3 / 2 }

// take allows s a step of so many bytes in place of the one before.
func (a *aheads) take(s *seg, step int64) bool {
	if a.never.Load() {
		return false
	}
	free, total, err := a.space()
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := a.sum - a.held[s] + step
	if sum > (free-a.floor(total))/aheadShare {
		return false
	}
	a.held[s], a.sum = step, sum
	return true
}

// forget notes that s holds nothing.
func (a *aheads) forget(s *seg) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum -= a.held[s]
	delete(a.held, s)
}

// spare has all of it given back if free is below the floor, and reports whether there was any. A log that is being
// written to is not waited for.
func (a *aheads) spare(free, total int64) bool {
	if free >= a.floor(total) {
		return false
	}
	var holders []*seg
	a.mu.Lock()
	for s := range a.held {
		holders = append(holders, s)
	}
	a.mu.Unlock()
	for _, s := range holders {
		if l := s.log; l.mu.TryLock() {
			if l.restsLocked(s) {
				l.giveBackLocked(s)
			}
			l.mu.Unlock()
		}
	}
	return len(holders) > 0
}

// reserveAheadLocked is called before a write of so many bytes at the active segment's end, and reserves a step beyond it
// if the blocks do not reach so far. What the disk refuses is no failure: the write finds its blocks itself.
func (l *Log) reserveAheadLocked(size, bytes int64, config *Config) {
	s, end := l.active, size+bytes
	if l.ahead == nil || end <= s.askAt {
		return
	}
	if s.askAt == 0 {
		s.askAt = size + l.ahead.after
		return
	}
	to := min(end+min(size, l.ahead.step), config.SegmentBytes)
	if to <= end {
		return
	}
	s.askAt = to // whatever is answered
	if !l.ahead.take(s, to-end) {
		return
	}
	err := s.handle.file.Ahead(size, to)
	switch {
	case err == nil:
		s.aheadTo = to
	case disk.IsFull(err):
		s.aheadTo = to // or less
		l.giveBackLocked(s)
		s.askAt = to
	case !l.ahead.never.Swap(true):
		l.logger.Info("no blocks are reserved ahead of appends in this data directory", "dir", l.dir, "err", err)
	}
}

// giveBackLocked frees what is reserved beyond the segment's end. Where that fails the file keeps a step at most, until it
// is cut, removed, or found by the start after a crash.
func (l *Log) giveBackLocked(s *seg) {
	had := s.aheadTo > 0
	l.noneAheadLocked(s)
	if !had {
		return
	}
	size := s.extent().size
	if err := s.handle.file.Ahead(size, size); err != nil {
		l.logger.Warn("blocks reserved ahead stay", "dir", l.dir, "segment", s.base, "err", err)
	}
}

// noneAheadLocked notes that the segment's file has no blocks beyond its end.
func (l *Log) noneAheadLocked(s *seg) {
	s.aheadTo, s.askAt = 0, 0
	l.ahead.forget(s)
}

// giveBack frees what a crash has left reserved beyond the end of a segment's file.
func (r *recovery) giveBack(s *seg, info os.FileInfo) {
	if disk.Surplus(info) <= aheadSlack {
		return
	}
	f, err := s.fs.Open(s.path(segment.LogSuffix), os.O_RDWR)
	if err == nil {
		err = errors.Join(f.Ahead(info.Size(), info.Size()), f.Close())
	}
	if err != nil {
		r.log.logger.Warn("blocks reserved ahead stay", "dir", r.log.dir, "segment", s.base, "err", err)
	}
}
