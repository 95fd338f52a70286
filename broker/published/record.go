package published

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tidemark/catalog"
	"tidemark/hotlog/disk"
)

// Options of a Record. Dir is required; zero values of the rest mean the default in brackets.
type Options struct {
	// Dir is made if absent; its parent must exist.
	Dir string
	// FS writes [the system's].
	FS disk.FS
	// Keep is how long a row is kept [24 h]: no longer than a garbage row lives, which then still says that the row
	// was removed rather than lost.
	Keep time.Duration
	// FileBytes and FileAge bound one file [4 MiB, 1 h], MaxBytes all files together [64 MiB]: the oldest go.
	FileBytes, MaxBytes int64
	FileAge             time.Duration
	// Now is the wall clock [time.Now].
	Now func() time.Time
	Log *slog.Logger // [none]
}

func (o *Options) fill() {
	if o.FS == nil {
		o.FS = disk.OS{}
	}
	if o.Keep == 0 {
		o.Keep = 24 * time.Hour
	}
	if o.FileBytes == 0 {
		o.FileBytes = 4 << 20
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 20
	}
	if o.FileAge == 0 {
		o.FileAge = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Record is what one broker has published. Its methods may be called at once from any number of goroutines.
type Record struct {
	o Options

	// What only the caller that writes touches.
	active disk.File // nil: the next write begins a file
	began  time.Time

	mu      sync.Mutex // guards what follows; a leaf
	files   []file     // oldest first
	next    *batch     // what is to be written next, nil: nothing
	writing bool
	closed  bool
	idle    chan struct{} // closed by the last writer once closed is set
}

// file is one file up to where it is whole and synced.
type file struct {
	number uint64
	bytes  int64
	newest int64 // ms since 1970, of its last entry
}

// batch is entries that one write and one fsync take.
type batch struct {
	bytes []byte
	last  int64
	done  chan struct{}
	err   error
}

// ErrClosed: Note after Close.
var ErrClosed = errors.New("published: the record is closed")

// Open reads what earlier lives have left. Entries that are not whole are cut off and said once; a file that cannot be
// read at all stays and is passed over.
func Open(o Options) (*Record, error) {
	o.fill()
	if err := o.FS.MakeDir(o.Dir); err != nil {
		return nil, fmt.Errorf("record of what was published: %w", err)
	}
	r := &Record{o: o, idle: make(chan struct{})}
	names, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("record of what was published: %w", err)
	}
	for _, n := range names {
		digits, ok := strings.CutSuffix(n.Name(), suffix)
		number, err := strconv.ParseUint(digits, 16, 64)
		if !ok || err != nil {
			continue
		}
		f, err := r.recover(number)
		if err != nil {
			return nil, fmt.Errorf("record of what was published: %w", err)
		}
		r.files = append(r.files, f)
	}
	slices.SortFunc(r.files, func(a, b file) int { return strings.Compare(name(a.number), name(b.number)) })
	r.drop(r.expire())
	return r, nil
}

const suffix = ".rec"

func name(number uint64) string { return fmt.Sprintf("%016x", number) + suffix }

func (r *Record) path(number uint64) string { return filepath.Join(r.o.Dir, name(number)) }

// recover reads a file of an earlier life and cuts what is not whole.
func (r *Record) recover(number uint64) (file, error) {
	f := file{number: number}
	raw, err := os.ReadFile(r.path(number))
	if err != nil {
		return f, err
	}
	entries, good, err := parse(raw)
	f.bytes = int64(good)
	for _, e := range entries {
		f.newest = max(f.newest, e.at)
	}
	switch {
	case errors.Is(err, errForeign):
		r.o.Log.Error("a record of what this broker published cannot be read; going on without it", "file", r.path(number))
		f.newest = r.o.Now().UnixMilli() // it counts and ages like any other
		f.bytes = int64(len(raw))
	case err != nil && len(raw) > headerBytes:
		r.o.Log.Warn("the record of what this broker published is cut where it is not whole", "file", r.path(number), "bytes", len(raw), "whole", good)
		return f, r.cut(number, int64(good))
	}
	return f, nil
}

func (r *Record) cut(number uint64, to int64) error {
	f, err := r.o.FS.Open(r.path(number), os.O_RDWR)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(to), f.Sync(), f.Close())
}

// Note writes a row, durably, before the transaction that publishes it is sent. After an error nothing is known of the
// row; the caller notes it again before it publishes.
func (r *Record) Note(row catalog.Publication) error {
	now := r.o.Now()
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	b := r.next
	if b == nil {
		b = &batch{done: make(chan struct{})}
		r.next = b
	}
	var err error
	if b.bytes, err = appendEntry(b.bytes, now, row); err != nil {
		r.mu.Unlock()
		return err
	}
	b.last = max(b.last, now.UnixMilli())
	writes := !r.writing
	r.writing = true
	r.mu.Unlock()
	if writes {
		r.write()
	}
	<-b.done
	return b.err
}

// write takes batches until there is none.
func (r *Record) write() {
	for {
		r.mu.Lock()
		b := r.next
		r.next = nil
		if b == nil {
			r.writing = false
			if r.closed {
				close(r.idle)
			}
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		if b.err = r.put(b); b.err != nil {
			b.err = fmt.Errorf("record of what was published: %w", b.err)
		}
		close(b.done)
	}
}

// put writes and syncs a batch. A file that fails is left.
func (r *Record) put(b *batch) error {
	r.rotate()
	if r.active == nil {
		if err := r.begin(); err != nil {
			return err
		}
	}
	r.mu.Lock()
	at := r.files[len(r.files)-1].bytes
	r.mu.Unlock()
	_, err := r.active.WriteAt(b.bytes, at)
	if err == nil {
		err = r.active.Sync()
	}
	if err != nil {
		_ = r.active.Close() // it has failed already
		r.active = nil
		r.leave()
		return err
	}
	r.mu.Lock()
	f := &r.files[len(r.files)-1]
	f.bytes += int64(len(b.bytes))
	f.newest = max(f.newest, b.last)
	r.mu.Unlock()
	return nil
}

// rotate ends a file that is full or old.
func (r *Record) rotate() {
	if r.active == nil {
		return
	}
	r.mu.Lock()
	bytes := r.files[len(r.files)-1].bytes
	r.mu.Unlock()
	age := r.o.Now().Sub(r.began)
	if bytes < r.o.FileBytes && age >= 0 && age < r.o.FileAge {
		return
	}
	_ = r.active.Close() // all of it is synced
	r.active = nil
}

// begin makes the next file, and lets go of what is too old or too much.
func (r *Record) begin() error {
	r.mu.Lock()
	number := uint64(1)
	if n := len(r.files); n > 0 {
		number = r.files[n-1].number + 1
	}
	gone := r.expire()
	r.mu.Unlock()
	r.drop(gone)
	f, err := r.o.FS.Open(r.path(number), os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(header(), 0); err == nil {
		err = errors.Join(f.Sync(), r.o.FS.SyncDir(r.o.Dir))
	}
	if err != nil {
		return errors.Join(err, f.Close(), r.o.FS.Remove(r.path(number)))
	}
	r.active, r.began = f, r.o.Now()
	r.mu.Lock()
	r.files = append(r.files, file{number: number, bytes: headerBytes, newest: r.began.UnixMilli()})
	r.mu.Unlock()
	return nil
}

// leave forgets a file that failed before anything in it was synced; one that holds something stays, up to there.
func (r *Record) leave() {
	r.mu.Lock()
	last := r.files[len(r.files)-1]
	empty := last.bytes == headerBytes
	if empty {
		r.files = r.files[:len(r.files)-1]
	}
	r.mu.Unlock()
	if empty {
		r.drop([]file{last})
	}
}

// expire takes out the files that are older than Keep, and the oldest ones above MaxBytes. The caller holds mu, or has
// the record to itself.
func (r *Record) expire() (gone []file) {
	oldest := r.o.Now().Add(-r.o.Keep).UnixMilli()
	var total int64
	for _, f := range r.files {
		total += f.bytes
	}
	for len(r.files) > 0 {
		f := r.files[0]
		if f.newest >= oldest && total <= r.o.MaxBytes-r.o.FileBytes {
			break
		}
		if f.newest >= oldest {
			r.o.Log.Warn("the record of what this broker published is full; its oldest part goes", "bytes", total)
		}
		total -= f.bytes
		gone = append(gone, f)
		r.files = r.files[1:]
	}
	return gone
}

func (r *Record) drop(gone []file) {
	for _, f := range gone {
		if err := r.o.FS.Remove(r.path(f.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.o.Log.Warn("remove an old record of what was published", "file", r.path(f.number), "error", err)
		}
	}
}

// Newest calls visit with the rows of the last Keep, the newest first, in pages of at most limit, until it returns
// false or an error. Memory: one file's rows. What is noted meanwhile may be left out.
func (r *Record) Newest(limit int, visit func(rows []catalog.Publication) (more bool, err error)) error {
	r.mu.Lock()
	files := slices.Clone(r.files)
	r.mu.Unlock()
	oldest := r.o.Now().Add(-r.o.Keep).UnixMilli()
	for _, f := range slices.Backward(files) {
		raw, err := os.ReadFile(r.path(f.number))
		if errors.Is(err, fs.ErrNotExist) {
			continue // too old by now
		}
		if err != nil {
			return fmt.Errorf("record of what was published: %w", err)
		}
		entries, _, err := parse(raw[:min(int64(len(raw)), f.bytes)])
		if errors.Is(err, errForeign) {
			continue
		}
		entries = slices.DeleteFunc(entries, func(e entry) bool { return e.at < oldest })
		slices.Reverse(entries)
		for page := range slices.Chunk(entries, limit) {
			rows := make([]catalog.Publication, len(page))
			for i, e := range page {
				rows[i] = e.row
			}
			if more, err := visit(rows); !more || err != nil {
				return err
			}
		}
	}
	return nil
}

// Close waits for a write in progress and closes the file. Idempotent.
func (r *Record) Close() error {
	r.mu.Lock()
	first, writing := !r.closed, r.writing
	r.closed = true
	r.mu.Unlock()
	if !first {
		return nil
	}
	if writing {
		<-r.idle
	}
	if r.active == nil {
		return nil
	}
	return r.active.Close()
}
