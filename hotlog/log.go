package hotlog

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"tidemark/hotlog/disk"
	"tidemark/record"
	"tidemark/record/producer"
)

// Log is one partition's log. All methods may be called by any number of
// goroutines.
type Log struct {
	dir    string
	fs     disk.FS
	clock  Clock
	logger *slog.Logger
	files  *FileLimit
	config atomic.Pointer[Config]

	start   atomic.Int64
	end     atomic.Int64
	flushed atomic.Int64
	segs    atomic.Pointer[[]*seg] // never changed in place
	epochs  atomic.Pointer[record.EpochHistory]
	failure atomic.Pointer[error]
	// abandoned: the files are being deleted; what they meet is nobody's failure.
	abandoned atomic.Bool
	// waitingSince is when the oldest unsynced append was made, Clock.Mono in ns; 0
	// if all is synced.
	waitingSince atomic.Int64
	// undecided is how many transactions are open or not settled; 0 spares readers
	// the append lock.
	undecided atomic.Int64

	flushTurn  chan struct{} // of size 1: whoever put in holds the turn
	stored     recoveryPoint // guarded by flushTurn: what the file says
	savedTo    storedEpochs  // guarded by flushTurn
	snapshotAt record.Offset // guarded by flushTurn: the last Close's producer state; NoOffset if none
	settled    bool          // guarded by flushTurn: closed, and all that it knows is on the disk or in a state file
	closing    sync.Once
	closeErr   error
	work       sync.WaitGroup // background flushes

	mu         sync.Mutex
	active     *seg
	state      *producer.State
	unflushed  int64 // records appended since the last flush was begun
	newNames   bool  // names in the directory that no SyncDir has covered
	newDir     bool  // the directory's own name is one of them
	unmade     bool  // new and never written to: there is no directory
	newAborted bool  // aborted transactions that no index file has
	waking     bool  // a background flush is about to begin
	closed     bool

	txnMu   sync.Mutex
	aborted producer.AbortedList

	recovered Recovery
}

// storedEpochs is the epoch history as the checkpoint has it.
type storedEpochs struct {
	valid   bool
	history record.EpochHistory
}

func (e storedEpochs) is(history record.EpochHistory) bool {
	return e.valid && slices.Equal(e.history.Entries(), history.Entries())
}

// Recovery says what Open had to do.
type Recovery struct {
	// Scanned is how many bytes were read and checked; 0 after a clean stop.
	Scanned int64
	// Cut is how many bytes after the last good batch were dropped, and Why.
	Cut int64
	Why string
}

// Recovered is what Open had to do.
func (l *Log) Recovered() Recovery { return l.recovered }

// Bounds is lock-free. Its fields are read in an order that keeps LocalStart ≤
// End and Acked ≤ End unless the log is truncated at that moment.
func (l *Log) Bounds() Bounds {
	b := Bounds{
		LocalStart: record.Offset(l.start.Load()),
		Flushed:    record.Offset(l.flushed.Load()),
	}
	b.End = record.Offset(l.end.Load())
	b.Acked = b.End
	if l.config.Load().FlushMessages == 1 {
		b.Acked = min(b.Flushed, b.End)
	}
	return b
}

// Segments lists the local segments, oldest first; the last is the active one.
func (l *Log) Segments() []SegmentInfo {
	segs := *l.segs.Load()
	infos := make([]SegmentInfo, len(segs))
	for i, s := range segs {
		infos[i] = s.info()
	}
	return infos
}

// Epochs is the history that the log and the tier's state gave it; an immutable
// value.
func (l *Log) Epochs() record.EpochHistory { return *l.epochs.Load() }

// AssignEpoch begins an epoch at the log's end, as a new leader does. An epoch that
// is not newer than the latest changes nothing.
func (l *Log) AssignEpoch(epoch record.Epoch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	l.assignLocked(epoch, record.Offset(l.end.Load()))
	return nil
}

func (l *Log) assignLocked(epoch record.Epoch, at record.Offset) {
	if last, ok := l.epochs.Load().Latest(); ok && epoch <= last.Epoch {
		return
	}
	history := *l.epochs.Load()
	history.Assign(epoch, at)
	l.epochs.Store(&history)
}

// TrimEpochs forgets the epochs that ended at or below start, the partition's
// start; the one in force there stays.
func (l *Log) TrimEpochs(start record.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	history := *l.epochs.Load()
	history.TrimBelow(start)
	l.epochs.Store(&history)
}

// SetConfig changes the settings from the next append on. MaxProducers bounds the
// state that the next Open, TruncateTo or Reset loads.
func (l *Log) SetConfig(c Config) error {
	if err := c.Validate(); err != nil {
		return err
	}
	l.config.Store(&c)
	return nil
}

// Failed is nil, or why the log is not touched again; wraps ErrFailed.
func (l *Log) Failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail makes the log refuse every write from now on (H28): after EIO the kernel
// may show pages as clean that never reached the disk, so a retry proves nothing.
// What an abandoned log meets is ErrClosed, and told to nobody.
func (l *Log) fail(doing string, cause error) error {
	if l.abandoned.Load() {
		return l.closedError()
	}
	err := fmt.Errorf("%w: %s: %s: %w", ErrFailed, l.dir, doing, cause)
	if l.failure.CompareAndSwap(nil, &err) {
		l.logger.Error("log failed", "dir", l.dir, "doing", doing, "err", cause)
	}
	return l.Failed()
}

func (l *Log) usableLocked() error {
	if err := l.Failed(); err != nil {
		return err
	}
	if l.closed {
		return l.closedError()
	}
	return nil
}

func (l *Log) closedError() error { return fmt.Errorf("%w: %s", ErrClosed, l.dir) }

// monoNow is Clock.Mono as a number that is never 0, which means "none".
func (l *Log) monoNow() int64 {
	if now := int64(l.clock.Mono()); now != 0 {
		return now
	}
	return 1
}

// find returns the segment that holds offset, which is not below the first's
// base.
func find(segs []*seg, offset record.Offset) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].base > offset }) - 1
}

// Close waits for background flushes, syncs everything and stores the end, so that
// the next Open needs no scan; then closes the files. A log that has failed, or was
// abandoned, is only closed. Idempotent; the first call's outcome is every call's.
func (l *Log) Close() error {
	l.closing.Do(func() {
		l.endWrites()
		if l.Failed() == nil && !l.abandoned.Load() {
			l.closeErr = l.settleHeld()
			l.settled = l.closeErr == nil
		}
		l.letGo()
	})
	return l.closeErr
}

// Abandon gives the log up: its files are about to be deleted, and nothing in them
// needs to be durable. It waits for an append that is being made, for no sync. From
// its return on no call begins to write or to sync, and one that is under way ends
// with ErrClosed, whatever it meets: the directory may be renamed or go. Close, which
// must follow, waits for what is under way and shuts the files. A closed log stays
// as it is.
func (l *Log) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.abandoned.Store(true)
	}
}

// endWrites begins a close: no call writes any more, and the flush turn is held.
func (l *Log) endWrites() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.work.Wait()
	l.flushTurn <- struct{}{}
}

// letGo ends a close.
func (l *Log) letGo() {
	for _, s := range *l.segs.Load() {
		s.retire(l.files)
	}
	<-l.flushTurn
}

// settleHeld writes what makes the next Open cheap: all data synced, the recovery
// point at the end, and the producer state there.
func (l *Log) settleHeld() error {
	if err := l.syncHeld(true); err != nil {
		return err
	}
	if !l.wantsSnapshot() {
		return nil
	}
	return errors.Join(l.writeLastState(), l.fs.SyncDir(l.dir))
}

// writeLastState writes the producer state at the end of a log that is closed.
func (l *Log) writeLastState() error {
	end := record.Offset(l.end.Load())
	err := l.writeSnapshot(end, l.state.AppendTo(nil))
	if err == nil {
		l.snapshotAt = end
	}
	return err
}

// wantsSnapshot says if the producer state at the log's end is in no file.
func (l *Log) wantsSnapshot() bool {
	end := record.Offset(l.end.Load())
	return end != l.active.base && end != l.snapshotAt
}

// FlushIn is the time until FlushInterval will have passed since the oldest unsynced
// append, 0 or less once it has: the caller then calls Flush. False if nothing waits
// or the interval is for ever.
func (l *Log) FlushIn() (time.Duration, bool) {
	since, interval := l.waitingSince.Load(), l.config.Load().FlushInterval
	if since == 0 || interval == 0 {
		return 0, false
	}
	return interval - (l.clock.Mono() - time.Duration(since)), true
}
