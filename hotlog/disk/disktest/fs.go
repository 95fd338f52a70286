package disktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tidemark/hotlog/disk"
)

// Fault makes operations fail. Op is the first word of a trace line, Name a part
// of the file's name; the first Skip matches pass, then Times fail (0: all).
type Fault struct {
	Op, Name    string
	Skip, Times int
	Err         error
	// Partial is how many bytes a failing write writes all the same.
	Partial int
}

// FS records, fails and forgets. Make it with New.
type FS struct {
	root string

	mu      sync.Mutex
	trace   []string
	faults  []*Fault
	live    map[string]*inode
	durable map[string]*inode
	pending []change
	steps   int
	onStep  func(step int)
}

var _ disk.FS = (*FS)(nil)

// inode is a file's content: what is there, and what an fsync has covered.
type inode struct {
	now    []byte
	synced []byte
}

// change is one change of the names that no SyncDir has covered.
type change struct {
	dir   string
	apply func(map[string]*inode)
}

// New returns a file system that works below root, an existing directory.
func New(root string) *FS {
	return &FS{root: root, live: map[string]*inode{}, durable: map[string]*inode{}}
}

// Fail adds a fault.
func (f *FS) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
}

// Heal takes all faults away.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = nil
}

// Trace returns the changes since the last call, one a line.
func (f *FS) Trace() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.trace, "\n")
	f.trace = nil
	return text
}

// OnStep has call run before every change, with its number from 1; call must not
// use the file system except Cut.
func (f *FS) OnStep(call func(step int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onStep = call
}

// step records one change and says whether it must fail.
func (f *FS) step(op, name, detail string) *Fault {
	f.steps++
	if f.onStep != nil {
		f.onStep(f.steps)
	}
	short := f.short(name)
	f.trace = append(f.trace, strings.TrimSpace(op+" "+short+" "+detail))
	for _, fault := range f.faults {
		if fault.Op != op || !strings.Contains(short, fault.Name) {
			continue
		}
		if fault.Skip > 0 {
			fault.Skip--
			continue
		}
		if fault.Times > 0 {
			if fault.Times--; fault.Times == 0 {
				fault.Op = "spent"
			}
		}
		f.trace[len(f.trace)-1] += " FAILS"
		return fault
	}
	return nil
}

func (f *FS) short(name string) string {
	if rel, err := filepath.Rel(f.root, name); err == nil {
		return rel
	}
	return name
}

// Open implements disk.FS; opening what exists is no change and is not recorded.
func (f *FS) Open(name string, flag int) (disk.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.live[name]
	if known == nil && flag&os.O_CREATE != 0 {
		if fault := f.step("create", name, ""); fault != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: fault.Err}
		}
	}
	real, err := disk.OS{}.Open(name, flag)
	if err != nil {
		return nil, err
	}
	if known == nil {
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		known = &inode{now: content}
		f.live[name] = known
		f.change(filepath.Dir(name), func(names map[string]*inode) { names[name] = known })
	}
	if flag&os.O_TRUNC != 0 {
		known.now = nil
	}
	return &file{fs: f, name: name, real: real, node: known}, nil
}

func (f *FS) change(dir string, apply func(map[string]*inode)) {
	f.pending = append(f.pending, change{dir, apply})
}

// Rename implements disk.FS.
func (f *FS) Rename(old, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.step("rename", old, "to "+f.short(to)); fault != nil {
		return &os.PathError{Op: "rename", Path: old, Err: fault.Err}
	}
	if err := os.Rename(old, to); err != nil {
		return err
	}
	move := func(names map[string]*inode) {
		for name, node := range names {
			if name == old || strings.HasPrefix(name, old+"/") {
				delete(names, name)
				names[to+name[len(old):]] = node
			}
		}
	}
	move(f.live)
	f.change(filepath.Dir(to), move)
	return nil
}

// Remove implements disk.FS.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := os.Lstat(name); err != nil {
		return err
	}
	if fault := f.step("remove", name, ""); fault != nil {
		return &os.PathError{Op: "remove", Path: name, Err: fault.Err}
	}
	if err := os.Remove(name); err != nil {
		return err
	}
	delete(f.live, name)
	f.change(filepath.Dir(name), func(names map[string]*inode) { delete(names, name) })
	return nil
}

// MakeDir implements disk.FS. Directories survive every power cut.
func (f *FS) MakeDir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.step("mkdir", name, ""); fault != nil {
		return &os.PathError{Op: "mkdir", Path: name, Err: fault.Err}
	}
	return disk.OS{}.MakeDir(name)
}

// SyncDir implements disk.FS.
func (f *FS) SyncDir(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.step("syncdir", dir, ""); fault != nil {
		return &os.PathError{Op: "sync", Path: dir, Err: fault.Err}
	}
	kept := f.pending[:0]
	for _, c := range f.pending {
		if c.dir == dir {
			c.apply(f.durable)
		} else {
			kept = append(kept, c)
		}
	}
	f.pending = kept
	return nil
}

// SyncAll implements disk.FS.
func (f *FS) SyncAll(dir string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fault := f.step("syncall", dir, ""); fault != nil {
		return &os.PathError{Op: "sync", Path: dir, Err: fault.Err}
	}
	for _, c := range f.pending {
		c.apply(f.durable)
	}
	f.pending = nil
	for _, node := range f.live {
		node.synced = append([]byte(nil), node.now...)
	}
	return nil
}

// file is one open file.
type file struct {
	fs   *FS
	name string
	real disk.File
	node *inode
}

// WriteAt implements disk.File.
func (x *file) WriteAt(p []byte, off int64) (int, error) {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	fault := x.fs.step("write", x.name, fmt.Sprintf("%d at %d", len(p), off))
	if fault != nil {
		p = p[:min(len(p), fault.Partial)]
	}
	n, err := x.real.WriteAt(p, off)
	if grow := int(off) + n - len(x.node.now); grow > 0 {
		x.node.now = append(x.node.now, make([]byte, grow)...)
	}
	copy(x.node.now[off:], p[:n])
	if fault != nil {
		return n, &os.PathError{Op: "write", Path: x.name, Err: fault.Err}
	}
	return n, err
}

// Truncate implements disk.File.
func (x *file) Truncate(size int64) error {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if int64(len(x.node.now)) == size {
		return nil
	}
	if fault := x.fs.step("truncate", x.name, fmt.Sprintf("to %d", size)); fault != nil {
		return &os.PathError{Op: "truncate", Path: x.name, Err: fault.Err}
	}
	if err := x.real.Truncate(size); err != nil {
		return err
	}
	x.node.now = append([]byte(nil), x.node.now[:min(size, int64(len(x.node.now)))]...)
	return nil
}

// Sync implements disk.File.
func (x *file) Sync() error {
	x.fs.mu.Lock()
	defer x.fs.mu.Unlock()
	if fault := x.fs.step("sync", x.name, ""); fault != nil {
		return &os.PathError{Op: "sync", Path: x.name, Err: fault.Err}
	}
	x.node.synced = append([]byte(nil), x.node.now...)
	return nil
}

// Close implements disk.File.
func (x *file) Close() error { return x.real.Close() }

// OS implements disk.File.
func (x *file) OS() *os.File { return x.real.OS() }
