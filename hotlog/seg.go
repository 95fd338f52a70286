package hotlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/hotlog/disk"
	"tidemark/hotlog/segment"
	"tidemark/record"
)

// extent is how far a segment is written. Its fields belong together, so they
// are read and written under one lock.
type extent struct {
	size int64
	next record.Offset
	peak segment.Peak
	// lastPos and lastBase are where the last append began: whoever reads at the
	// tail need not search.
	lastPos  int64
	lastBase record.Offset
}

// seg is one segment of a log.
type seg struct {
	base record.Offset
	dir  string
	fs   disk.FS
	log  *Log // whose it is

	handleMu sync.Mutex
	handle   *handle // nil while shut
	gone     bool    // freed: not opened again
	pinned   bool    // active: shut by Log.rest alone

	extentMu sync.RWMutex
	ext      extent
	// index is nil once the files have all of it, and of an active segment that has not been used since a clean
	// stop (Log.readyLocked).
	index *segment.Index

	sealed    atomic.Bool
	firstMono atomic.Int64 // of the first append, Clock.Mono in ns
	firstWall atomic.Int64 // the same in wall ms; 0: nothing appended
	lastWall  atomic.Int64

	// Guarded by the log's append lock.
	dirty    bool   // has bytes that no fsync has covered
	snapshot []byte // producer state at base that is not on disk yet

	// Guarded by the log's flush turn; while the index of the active segment is nil by the append lock.
	onDisk  written
	settled bool // sealed, and all of its files are synced
	stale   bool // the index files may hold more than onDisk says

	// Guarded by FileLimit.
	admitted bool
	lastUse  time.Duration // of an active segment, as Rest saw it
	used     atomic.Bool
}

// written is how many entries the index files hold.
type written struct{ offsets, times, txns int }

// handle is an open .log file. The segment holds one reference while it is open,
// every section one; the last one closes it.
type handle struct {
	file     disk.File
	writable bool
	refs     atomic.Int32

	indexMu sync.Mutex
	index   *segment.Index // of a sealed segment, loaded at the first search
}

func newHandle(f disk.File, writable bool) *handle {
	h := &handle{file: f, writable: writable}
	h.refs.Store(1)
	return h
}

func (h *handle) release() {
	if h.refs.Add(-1) == 0 {
		// Nothing was written through a reader's handle, and a writer's was synced.
		_ = h.file.Close()
	}
}

func newSeg(l *Log, base record.Offset) *seg {
	s := &seg{base: base, dir: l.dir, fs: l.fs, log: l}
	s.ext = extent{next: base, peak: segment.NoPeak(base), lastBase: base}
	s.index = &segment.Index{Base: base}
	return s
}

func (s *seg) path(suffix string) string {
	return filepath.Join(s.dir, segment.Name(s.base, suffix))
}

func (s *seg) extent() extent {
	s.extentMu.RLock()
	defer s.extentMu.RUnlock()
	return s.ext
}

// openActive gives the segment the handle that appends go through.
func (s *seg) openActive(flag int) error {
	f, err := s.fs.Open(s.path(segment.LogSuffix), flag|os.O_RDWR)
	if err != nil {
		return err
	}
	s.handleMu.Lock()
	old := s.handle
	s.handle, s.pinned = newHandle(f, true), true
	s.handleMu.Unlock()
	if old != nil {
		old.release()
	}
	s.log.files.awake(s)
	return nil
}

// writable opens the file that appends go through, if it is not open. Under the append lock, which keeps it open.
func (s *seg) writable() error {
	s.handleMu.Lock()
	open := s.handle != nil && s.handle.writable
	s.handleMu.Unlock()
	if !open {
		return s.openActive(0)
	}
	s.touch()
	return nil
}

// touch notes that the file is used.
func (s *seg) touch() {
	if !s.used.Load() {
		s.used.Store(true)
	}
}

// acquire returns the open file with a reference for the caller. A segment that
// was freed meanwhile is ErrBelowLocal.
func (s *seg) acquire(files *FileLimit) (*handle, error) {
	if h, gone := s.current(); h != nil || gone {
		if gone {
			return nil, ErrBelowLocal
		}
		s.touch()
		return h, nil
	}
	flag := os.O_RDONLY
	if !s.sealed.Load() {
		flag = os.O_RDWR // an append may find it
	}
	f, err := s.fs.Open(s.path(segment.LogSuffix), flag)
	if err != nil {
		if _, gone := s.current(); gone || errors.Is(err, fs.ErrNotExist) {
			return nil, ErrBelowLocal
		}
		if passes(err) {
			err = fmt.Errorf("%w: %w", ErrNoFiles, err)
		}
		return nil, err
	}
	h, mine, pinned := s.install(newHandle(f, flag == os.O_RDWR))
	switch {
	case mine && pinned:
		files.awake(s)
	case mine:
		files.admit(s)
	}
	return h, nil
}

func (s *seg) current() (*handle, bool) {
	s.handleMu.Lock()
	defer s.handleMu.Unlock()
	if s.gone || s.handle == nil {
		return nil, s.gone
	}
	s.handle.refs.Add(1)
	return s.handle, false
}

// install keeps h open for others, unless somebody was faster or the segment went.
func (s *seg) install(h *handle) (got *handle, mine, pinned bool) {
	s.handleMu.Lock()
	defer s.handleMu.Unlock()
	switch {
	case s.gone:
		return h, false, false
	case s.handle != nil:
		h.release()
		s.handle.refs.Add(1)
		return s.handle, false, false
	}
	h.refs.Add(1)
	s.handle = h
	return h, true, s.pinned
}

// unpin lets FileLimit close the segment: it is sealed and synced.
func (s *seg) unpin(files *FileLimit) {
	files.asleep(s)
	s.handleMu.Lock()
	pinned := s.pinned
	s.pinned = false
	s.handleMu.Unlock()
	if pinned {
		files.admit(s)
	}
}

// shut closes the file once its readers are done, unless it is the active one's; the next reader opens it again.
func (s *seg) shut() {
	s.handleMu.Lock()
	if s.pinned {
		s.handleMu.Unlock()
		return
	}
	s.dropHandle()
}

// dropHandle takes the handle away and ends the lock that the caller holds.
func (s *seg) dropHandle() {
	h := s.handle
	s.handle = nil
	s.handleMu.Unlock()
	if h != nil {
		h.release()
	}
}

// retire shuts the segment for ever.
func (s *seg) retire(files *FileLimit) {
	files.forget(s)
	files.asleep(s)
	s.handleMu.Lock()
	s.gone, s.pinned = true, false
	s.handleMu.Unlock()
	s.shut()
}

// search calls f with the segment's index, which f must not keep.
func (s *seg) search(h *handle, f func(*segment.Index)) error {
	s.extentMu.RLock()
	if s.index != nil {
		f(s.index)
		s.extentMu.RUnlock()
		return nil
	}
	ext := s.ext
	s.extentMu.RUnlock()
	if !s.sealed.Load() {
		if err := s.log.wake(s, h); err != nil {
			return err
		}
		return s.search(h, f)
	}
	h.indexMu.Lock()
	defer h.indexMu.Unlock()
	if h.index == nil {
		x, err := s.loadIndex(h, ext)
		if err != nil {
			return err
		}
		h.index = x
	}
	f(h.index)
	return nil
}

// loadIndex reads the index files, and builds the index again from the batches if
// they are missing or damaged (I6). What it built is not written here: a reader
// must not need disk space.
func (s *seg) loadIndex(h *handle, ext extent) (*segment.Index, error) {
	x, err := s.readIndexFiles(ext)
	if err == nil {
		return x, nil
	}
	x, _, err = buildIndex(h.file, s.base, ext.size)
	return x, err
}

func (s *seg) readIndexFiles(ext extent) (*segment.Index, error) {
	offsets, err := os.ReadFile(s.path(segment.IndexSuffix))
	if err != nil {
		return nil, err
	}
	times, err := os.ReadFile(s.path(segment.TimeSuffix))
	if err != nil {
		return nil, err
	}
	return segment.DecodeIndex(offsets, times, s.base, ext.next, ext.size)
}

// rebuildInterval is the spacing of an index that is made again from a file.
const rebuildInterval = 4096

// buildIndex walks the batches of [0, size) of a segment file.
func buildIndex(f disk.File, base record.Offset, size int64) (*segment.Index, segment.Peak, error) {
	x := &segment.Index{Base: base}
	peak := segment.NoPeak(base)
	var w segment.Walker
	w.Reset(f.OS(), 0, size)
	for w.Next() {
		h := w.Header()
		peak = peak.With(h.MaxTimestamp, h.LastOffset())
		x.Add(h, w.Pos(), rebuildInterval, peak)
	}
	x.Finish(peak)
	return x, peak, w.Err()
}

func (s *seg) info() SegmentInfo {
	ext := s.extent()
	return SegmentInfo{
		Base: s.base, Next: ext.next, Bytes: ext.size, MaxTimestamp: ext.peak.Timestamp,
		FirstAppendMono: time.Duration(s.firstMono.Load()),
		FirstAppendWall: s.firstWall.Load(), LastAppendWall: s.lastWall.Load(),
		Sealed: s.sealed.Load(),
	}
}
