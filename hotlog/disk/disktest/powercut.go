package disktest

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Choose picks a number of [0, n).
type Choose func(n int) int

// PowerCut writes to the directory to, which must not exist, what a power cut at
// this moment could leave of the root.
func (f *FS) PowerCut(choose Choose, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cut(choose, to)
}

// Cut is PowerCut for use inside OnStep.
func (f *FS) Cut(choose Choose, to string) error {
	names := make(map[string]*inode, len(f.durable))
	for name, node := range f.durable {
		names[name] = node
	}
	for _, c := range f.pending[:choose(len(f.pending)+1)] {
		c.apply(names)
	}
	if err := f.makeDirs(to); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		path := filepath.Join(to, f.short(name))
		if err := os.WriteFile(path, names[name].afterCut(choose), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (f *FS) makeDirs(to string) error {
	return filepath.WalkDir(f.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.MkdirAll(filepath.Join(to, f.short(path)), 0o755)
	})
}

// afterCut is a content that the file may have: what differs from the last fsync
// may have reached the disk in part, or only as a size.
func (n *inode) afterCut(choose Choose) []byte {
	if bytes.Equal(n.now, n.synced) {
		return n.now
	}
	switch choose(4) {
	case 0:
		return n.synced
	case 1:
		return n.now
	case 2:
		return n.torn(choose)
	default:
		b := n.torn(choose)
		if len(n.now) > len(b) {
			b = append(b, make([]byte, choose(len(n.now)-len(b)+1))...)
		}
		return b
	}
}

// torn has the new bytes up to some point that is not before the first change.
func (n *inode) torn(choose Choose) []byte {
	same := 0
	for same < len(n.now) && same < len(n.synced) && n.now[same] == n.synced[same] {
		same++
	}
	if same == len(n.now) {
		return append([]byte(nil), n.now...)
	}
	b := append([]byte(nil), n.now[:same+choose(len(n.now)-same+1)]...)
	if len(b) < len(n.synced) {
		b = append(b, n.synced[len(b):]...)
	}
	return b
}
