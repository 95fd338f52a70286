package hotlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidemark/hotlog/disk"
)

// StrayAge is how long a directory that the catalog does not know is kept: a
// catalog that lost a CREATE must not cost acknowledged data (H2).
const StrayAge = 7 * 24 * time.Hour

// PartitionDir is a partition's directory that exists.
type PartitionDir struct {
	Topic     [16]byte
	Partition int32
	Path      string
}

// Path is where a partition's log lives, there or not. Directories are named by
// topic id, so a topic that is deleted and made again has new ones.
func (d *DataDir) Path(topic [16]byte, partition int32) string {
	return d.file(fmt.Sprintf("%s-%d", hexOf(topic), partition))
}

// List lists the partitions that have a directory.
func (d *DataDir) List() ([]PartitionDir, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var dirs []PartitionDir
	for _, e := range entries {
		topic, partition, ok := splitDirName(e.Name())
		if ok && e.IsDir() {
			dirs = append(dirs, PartitionDir{topic, partition, d.file(e.Name())})
		}
	}
	return dirs, nil
}

// removeTree deletes a directory of files, or some of them if ctx ends.
func (d *DataDir) removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return err
		}
		err = errors.Join(err, d.fs.Remove(filepath.Join(dir, e.Name())))
	}
	return errors.Join(err, d.fs.Remove(dir))
}

// SetAside moves a directory whose topic the catalog does not know into stray/,
// where it stays for StrayAge. The log must be closed.
func (d *DataDir) SetAside(p PartitionDir) error {
	stray := d.file(strayName)
	if err := d.fs.MakeDir(stray); err != nil {
		return err
	}
	d.takeKnown(p.Topic, p.Partition)
	d.strays.Store(true)
	name := fmt.Sprintf("%s.%d", filepath.Base(p.Path), d.wall().UnixMilli())
	if err := d.fs.Rename(p.Path, filepath.Join(stray, name)); err != nil {
		return fmt.Errorf("set aside: %w", err)
	}
	d.logger.Warn("partition directory set aside", "dir", p.Path, "as", name)
	return errors.Join(d.fs.SyncDir(stray), d.fs.SyncDir(d.path))
}

// SweepStray deletes what was set aside longer than StrayAge ago and returns how
// many directories. A clock that went back deletes nothing.
func (d *DataDir) SweepStray() (int, error) {
	stray := d.file(strayName)
	entries, err := os.ReadDir(stray)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	swept := 0
	for _, e := range entries {
		i := strings.LastIndexByte(e.Name(), '.')
		at, perr := strconv.ParseInt(e.Name()[i+1:], 10, 64)
		if i < 0 || perr != nil || d.wall().Sub(time.UnixMilli(at)) < StrayAge {
			continue
		}
		if rerr := d.removeTree(context.Background(), filepath.Join(stray, e.Name())); rerr != nil {
			err = errors.Join(err, rerr)
			continue
		}
		swept++
	}
	return swept, err
}

// HasStrays says whether anything may have been set aside; false spares a look for each of many partitions.
func (d *DataDir) HasStrays() bool { return d.strays.Load() }

// Restore brings a directory that was set aside back, the newest if there are
// several: the catalog knows the topic after all. False if there is none.
func (d *DataDir) Restore(topic [16]byte, partition int32) (bool, error) {
	prefix := filepath.Base(d.Path(topic, partition)) + "."
	entries, err := os.ReadDir(d.file(strayName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	newest := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Name() > newest {
			newest = e.Name()
		}
	}
	if err != nil || newest == "" {
		return false, err
	}
	if err := d.fs.Rename(filepath.Join(d.file(strayName), newest), d.Path(topic, partition)); err != nil {
		return false, fmt.Errorf("restore: %w", err)
	}
	return true, errors.Join(d.fs.SyncDir(d.path), d.fs.SyncDir(d.file(strayName)))
}

// FreeSpace is how many bytes an ordinary process may still write on the data
// disk, and the disk's size.
func (d *DataDir) FreeSpace() (free, total int64, err error) { return disk.Space(d.path) }
