package hotlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"tidemark/hotlog/disk"
)

// restAtOnce bounds what one Rest closes: what is not synced is synced before, which is not to keep the disk from others.
const restAtOnce = 256

// awake notes that an active segment is open, asleep that it is shut.
func (f *FileLimit) awake(s *seg) {
	s.touch()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[s] = struct{}{}
}

func (f *FileLimit) asleep(s *seg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, s)
}

// Rest closes the files of active segments that were not used for idle, by calls of this function at now on a monotonic
// clock; their next use opens them. It returns how many it closed. ctx ends it between two.
func (f *FileLimit) Rest(ctx context.Context, now, idle time.Duration) int {
	var g []*seg
	f.mu.Lock()
	for s := range f.open {
		switch {
		case s.used.Swap(false):
			s.lastUse = now
		case now-s.lastUse >= idle && len(g) < restAtOnce:
			g = append(g, s)
		}
	}
	f.mu.Unlock()
	closed := 0
	for _, s := range g {
		if ctx.Err() != nil {
			break
		}
		if s.log.rest(s) {
			closed++
		}
	}
	return closed
}

// rest closes the active segment's file. It is synced through the very file first, and one that has bytes without a sync
// stays open: of a closed one the kernel may forget that a write failed (H28).
func (l *Log) rest(s *seg) bool {
	l.files.beginSync()
	defer l.files.doneSync()
	l.flushTurn <- struct{}{}
	defer func() { <-l.flushTurn }()
	l.mu.Lock()
	idle, dirty, small := !s.used.Load() && l.restsLocked(s), s.dirty, l.isSmall()
	l.mu.Unlock()
	if !idle {
		return false
	}
	if dirty {
		// A failure has been logged; what a full disk refused is tried again by the next call.
		if err := l.syncHeld(!small); err != nil {
			return false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.dirty || !l.restsLocked(s) {
		return false
	}
	l.files.asleep(s)
	s.handleMu.Lock()
	s.dropHandle()
	return true
}

// restsLocked says if s may be shut as the active segment.
func (l *Log) restsLocked(s *seg) bool { return l.active == s && l.usableLocked() == nil }

// readyLocked opens the active segment for an append, a roll or a truncation: its file, if it rests, and its index, if
// nothing has used it since it was opened by what a clean stop knew. A new log's are made. Errors: ErrNoFiles, ErrDiskFull,
// ErrFailed.
func (l *Log) readyLocked() error {
	if err := l.makeLocked(); err != nil {
		return err
	}
	s := l.active
	if err := s.writable(); err != nil {
		return l.cannotOpen("open to write", err)
	}
	if s.index != nil {
		return nil
	}
	return l.loadLocked(s, s.handle)
}

// makeLocked makes the directory and the file of a log that was never written to. Most of many partitions are not for a
// long time, and two names each are most of what they cost. Errors: ErrNoFiles, ErrDiskFull, ErrFailed.
func (l *Log) makeLocked() error {
	if !l.unmade {
		return nil
	}
	err := l.fs.MakeDir(l.dir)
	if err == nil {
		l.newDir = true
		err = l.active.openActive(os.O_CREATE | os.O_TRUNC)
	}
	switch {
	case disk.IsFull(err):
		return fmt.Errorf("%w: %s: %w", ErrDiskFull, l.dir, err)
	case err != nil:
		return l.cannotOpen("create the log", err)
	}
	l.newNames, l.unmade = true, false
	return nil
}

// wake loads the index of the active segment for a reader that holds h.
func (l *Log) wake(s *seg, h *handle) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.index != nil || s.sealed.Load():
		return nil
	case l.active != s:
		return ErrBelowLocal // a reset has removed it
	}
	return l.loadLocked(s, h)
}

// loadLocked reads the index of the active segment from its files, or makes it again, and compares the segment's end with
// what the clean stop knew.
func (l *Log) loadLocked(s *seg, h *handle) error {
	ext := s.extent()
	x, err := s.readIndexFiles(ext)
	if s.stale || err != nil || len(x.Offsets) != s.onDisk.offsets || len(x.Times) != s.onDisk.times {
		if x, _, err = buildIndex(h.file, s.base, ext.size); err != nil {
			return l.fail("read a log that was closed", err)
		}
		s.onDisk.offsets, s.onDisk.times, s.stale = 0, 0, true
	}
	tail, err := tailOf(h.file, x, ext)
	if err == nil && tail.next != ext.next {
		err = fmt.Errorf("segment %d ends at %d, at the clean stop at %d", s.base, tail.next, ext.next)
	}
	if err != nil {
		return l.fail("read a log that was closed", err)
	}
	s.extentMu.Lock()
	s.index = x
	s.extentMu.Unlock()
	return nil
}

// cannotOpen is the log's failure to open a file that it writes to, unless it passes.
func (l *Log) cannotOpen(doing string, err error) error {
	if passes(err) {
		return fmt.Errorf("%w: %s: %s: %w", ErrNoFiles, l.dir, doing, err)
	}
	return l.fail(doing, err)
}

// passes reports that a file could not be opened for a reason that is not its own.
func passes(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
