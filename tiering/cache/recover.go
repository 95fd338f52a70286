package cache

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const suffix = ".chunk"

// found is a whole chunk file of an earlier process.
type found struct {
	entry *entry
	used  time.Time
}

// recover makes entries of the whole chunk files in the folder, the youngest first, and removes all others of ours.
func (c *Cache) recover() error {
	if err := os.MkdirAll(c.opts.Dir, 0o755); err != nil {
		return err
	}
	names, err := os.ReadDir(c.opts.Dir)
	if err != nil {
		return err
	}
	var all []found
	for _, n := range names {
		if !strings.HasSuffix(n.Name(), suffix) {
			continue
		}
		path := filepath.Join(c.opts.Dir, n.Name())
		f, ok := inspect(path)
		if !ok {
			_ = os.Remove(path)
			continue
		}
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(b.used.UnixNano(), a.used.UnixNano()) })
	for _, f := range all {
		e := f.entry
		if c.entries[e.key] != nil || c.used+e.bytes > c.opts.MaxBytes {
			_ = os.Remove(e.path)
			continue
		}
		c.entries[e.key] = e
		e.place = c.lru.PushFront(e)
		c.used += e.bytes
	}
	c.opts.Metrics.used.Set(float64(c.used))
	return nil
}

// inspect reads one file's header; its data is checked when it is read.
func inspect(path string) (found, bool) {
	f, err := os.Open(path)
	if err != nil {
		return found{}, false
	}
	defer f.Close()
	h, err := readHeader(f)
	if err != nil {
		return found{}, false
	}
	fi, err := f.Stat()
	if err != nil {
		return found{}, false
	}
	return found{entry: &entry{key: h.key, path: path, bytes: fi.Size(), read: true}, used: fi.ModTime()}, true
}
