package hotlog

import "sync"

// FileLimit bounds, over all logs and other readers of files that share it, the
// file reads in flight (each may hold an operating-system thread: P4) and the
// sealed segments whose files and indexes are kept open. An active segment's file is open from its first use
// until Rest finds it idle.
type FileLimit struct {
	reads chan struct{}
	syncs chan struct{} // background flushes, so that they never fill the reads

	mu   sync.Mutex
	max  int
	ring []*seg            // the open sealed segments
	hand int               // of the clock that picks who goes
	open map[*seg]struct{} // the open active segments
}

// NewFileLimit returns a limit of reads in flight and of open sealed segments,
// both at least 1.
func NewFileLimit(reads, openSegments int) *FileLimit {
	return &FileLimit{
		reads: make(chan struct{}, max(1, reads)),
		syncs: make(chan struct{}, max(1, reads/2)),
		max:   max(1, openSegments),
		open:  map[*seg]struct{}{},
	}
}

// BeginRead waits for one of the reads in flight; EndRead gives it back. Who has one
// asks for no second one and waits for nobody but the disk.
func (f *FileLimit) BeginRead() { f.reads <- struct{}{} }

// EndRead follows each BeginRead.
func (f *FileLimit) EndRead() { <-f.reads }

func (f *FileLimit) beginSync() { f.syncs <- struct{}{} }

func (f *FileLimit) doneSync() { <-f.syncs }

// admit notes that s is open, and closes another when there are too many. A
// closed one's readers keep its file until they are done.
func (f *FileLimit) admit(s *seg) {
	if victim := f.admitted(s); victim != nil {
		victim.shut()
	}
}

func (f *FileLimit) admitted(s *seg) *seg {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.used.Store(true)
	if s.admitted {
		return nil
	}
	s.admitted = true
	if len(f.ring) < f.max {
		f.ring = append(f.ring, s)
		return nil
	}
	for range 2 * len(f.ring) {
		f.hand = (f.hand + 1) % len(f.ring)
		if !f.ring[f.hand].used.Swap(false) {
			break
		}
	}
	victim := f.ring[f.hand]
	victim.admitted = false
	f.ring[f.hand] = s
	return victim
}

// forget takes s out: it was removed, or is active again.
func (f *FileLimit) forget(s *seg) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !s.admitted {
		return
	}
	s.admitted = false
	for i, x := range f.ring {
		if x == s {
			last := len(f.ring) - 1
			f.ring[i] = f.ring[last]
			f.ring[last] = nil
			f.ring = f.ring[:last]
			return
		}
	}
}
