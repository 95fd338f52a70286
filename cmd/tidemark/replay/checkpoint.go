package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"tidemark/record"
)

// Errors of a checkpoint.
var (
	// ErrOther: the checkpoint was made by a replay of something else.
	ErrOther = errors.New("the checkpoint is another replay's")
	// ErrHeld: another process replays with this checkpoint.
	ErrHeld = errors.New("another process replays with this checkpoint")
)

// Spec is what a replay does; a checkpoint is good for the same one only.
type Spec struct {
	Source   string `json:"source"`
	SourceID string `json:"source_id"`
	Target   string `json:"target"`
	TargetID string `json:"target_id,omitempty"`
	// Options are the range, the filters and the mapping as the user wrote them.
	Options string `json:"options"`
}

// differences says what s has otherwise than o, and what o has there.
func (s Spec) differences(o Spec) (ours, theirs string) {
	var a, b []string
	for _, f := range []struct{ name, ours, theirs string }{
		{"source", s.Source, o.Source}, {"source id", s.SourceID, o.SourceID},
		{"target", s.Target, o.Target}, {"target id", s.TargetID, o.TargetID},
	} {
		if f.ours != f.theirs {
			a, b = append(a, fmt.Sprintf("%s=%q", f.name, f.ours)), append(b, fmt.Sprintf("%s=%q", f.name, f.theirs))
		}
	}
	if s.Options != o.Options {
		a, b = append(a, s.Options), append(b, o.Options)
	}
	return strings.Join(a, " "), strings.Join(b, " ")
}

// lane is how far one source partition has been copied.
type lane struct {
	Next record.Offset `json:"next"`
	// Producer and Epoch are of the partition's idempotent producer, for a topic as target.
	Producer int64 `json:"producer,omitempty"`
	Epoch    int16 `json:"epoch,omitempty"`
	// Marks are by target partition.
	Marks map[int32]mark `json:"marks,omitempty"`
	// File is the open one of a folder of batches, Size its length.
	File string `json:"file,omitempty"`
	Size int64  `json:"size,omitempty"`
}

// mark is a place in a target partition: Sequence records were copied there, all batches of later ones lie at or
// after the offset After.
type mark struct {
	Sequence int64         `json:"sequence"`
	After    record.Offset `json:"after"`
}

// state is what a checkpoint file holds.
type state struct {
	Version int             `json:"version"`
	Spec    Spec            `json:"spec"`
	Ranges  map[int32]Range `json:"ranges"`
	Lanes   map[int32]*lane `json:"lanes"`
	// Size is the length of the one output file.
	Size int64 `json:"size,omitempty"`
	// Records and Bytes were copied so far.
	Records int64 `json:"records"`
	Bytes   int64 `json:"bytes"`
	Done    bool  `json:"done"`
}

// file is a checkpoint's outer form: the CRC-32C of the state's bytes tells a damaged one.
type file struct {
	CRC   uint32          `json:"crc32c"`
	State json.RawMessage `json:"replay"`
}

const checkpointVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checkpoint is the progress of a replay. Safe for concurrent use.
type Checkpoint struct {
	path string // "": kept nowhere
	lock *os.File
	// Resumed tells that an earlier process has begun.
	Resumed bool

	mu sync.Mutex // guards s, and the output files that s describes
	s  state
}

// OpenCheckpoint takes the file at path, for this process alone, or begins one if there is none; without a path
// nothing is kept. Errors: ErrOther, ErrHeld.
func OpenCheckpoint(path string, spec Spec) (*Checkpoint, error) {
	c := &Checkpoint{path: path, s: state{Version: checkpointVersion, Spec: spec, Lanes: map[int32]*lane{}}}
	if path == "" {
		return c, nil
	}
	var err error
	if c.lock, err = os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644); err != nil {
		return nil, err
	}
	if err := holdAlone(c.lock); err != nil {
		_ = c.lock.Close()
		return nil, fmt.Errorf("%w: %s", ErrHeld, path)
	}
	if err := c.load(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Checkpoint) load() error {
	raw, err := os.ReadFile(c.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f file
	var compact bytes.Buffer
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("%s is not a checkpoint: %w", c.path, err)
	}
	if err := json.Compact(&compact, f.State); err != nil {
		return fmt.Errorf("%s is not a checkpoint: %w", c.path, err)
	}
	if got := crc32.Checksum(compact.Bytes(), castagnoli); got != f.CRC {
		return fmt.Errorf("%s is damaged: its checksum is %d, not %d", c.path, got, f.CRC)
	}
	var s state
	if err := json.Unmarshal(f.State, &s); err != nil {
		return fmt.Errorf("%s is not a checkpoint: %w", c.path, err)
	}
	switch {
	case s.Version != checkpointVersion:
		return fmt.Errorf("%s has version %d; this release reads %d", c.path, s.Version, checkpointVersion)
	case s.Spec != c.s.Spec:
		was, is := s.Spec.differences(c.s.Spec)
		return fmt.Errorf("%w: %s is of one with %s, this one has %s", ErrOther, c.path, was, is)
	}
	c.s, c.Resumed = s, true
	return nil
}

// Ranges are what is copied; nil if the replay has just begun.
func (c *Checkpoint) Ranges() map[int32]Range { return c.s.Ranges }

// Done reports whether all of it has been copied.
func (c *Checkpoint) Done() bool { return c.s.Done }

// begin fixes the ranges.
func (c *Checkpoint) begin(ranges map[int32]Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Ranges = ranges
	for p, r := range ranges {
		c.s.Lanes[p] = &lane{Next: r.From}
	}
}

// at is a copy of a lane.
func (c *Checkpoint) at(p int32) lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := *c.s.Lanes[p]
	l.Marks = make(map[int32]mark, len(l.Marks))
	for q, m := range c.s.Lanes[p].Marks {
		l.Marks[q] = m
	}
	return l
}

// move changes a lane, and writes to the output files that belong to it, under the lock.
func (c *Checkpoint) move(p int32, change func(s *state, l *lane) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return change(&c.s, c.s.Lanes[p])
}

// save makes the file say what the state says, after sync has made durable what the state speaks of.
func (c *Checkpoint) save(sync func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := sync(); err != nil {
		return err
	}
	if c.path == "" {
		return nil
	}
	raw, err := json.Marshal(&c.s)
	if err != nil {
		return err
	}
	out, err := json.Marshal(file{CRC: crc32.Checksum(raw, castagnoli), State: raw})
	if err != nil {
		return err
	}
	return replaceFile(c.path, out)
}

// replaceFile puts a new file in place of an old one, so that either is there whole whenever the machine stops.
func replaceFile(path string, b []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// holdAlone locks a file that its last holder removes: what was locked must still be what its name leads to.
func holdAlone(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	held, err := f.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(f.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(held, named) {
		return os.ErrNotExist
	}
	return nil
}

// Close lets another process have the checkpoint.
func (c *Checkpoint) Close() error {
	if c.lock == nil {
		return nil
	}
	return errors.Join(os.Remove(c.lock.Name()), c.lock.Close())
}
