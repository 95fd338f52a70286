package hotlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// trashAgain is how long the trash waits after a failure before it is emptied again.
const trashAgain = time.Minute

// trash is what Discard leaves to EmptyTrash.
type trash struct {
	wake chan struct{} // of size 1

	mu      sync.Mutex
	closing map[partitionKey]*Log // abandoned, perhaps not closed yet
}

// Discard deletes the logs of partitions whose topics were deleted or that have moved away, opened by OpenLog. They are
// abandoned, renamed into the trash, and durably so, with one sync for all of them; it waits for no byte of theirs. What is
// not renamed, by the error, stays where it is. EmptyTrash deletes the files: only then is their space back on the disk.
// A log of the same partition may be opened at once; it is a new one.
func (d *DataDir) Discard(logs []*Log) error {
	if len(logs) == 0 {
		return nil
	}
	err := d.fs.MakeDir(d.file(trashName))
	for _, l := range logs {
		l.Abandon()
		if key, ok := d.keyOf(l); ok {
			d.takeKnown(key.topic, key.partition)
			d.trash.mu.Lock()
			d.trash.closing[key] = l
			d.trash.mu.Unlock()
			err = errors.Join(err, d.throwAway(l.dir))
		}
	}
	err = errors.Join(err, d.fs.SyncDir(d.file(trashName)), d.fs.SyncDir(d.path))
	select {
	case d.trash.wake <- struct{}{}:
	default:
	}
	if err != nil {
		return fmt.Errorf("discard %d logs: %w", len(logs), err)
	}
	return nil
}

// keyOf is the partition of a log of this directory.
func (d *DataDir) keyOf(l *Log) (partitionKey, bool) {
	topic, partition, ok := splitDirName(filepath.Base(l.dir))
	return partitionKey{topic, partition}, ok && filepath.Dir(l.dir) == filepath.Clean(d.path)
}

// throwAway renames a directory into the trash; one that is not there is no error.
func (d *DataDir) throwAway(dir string) error {
	to := filepath.Join(d.file(trashName), filepath.Base(dir)+"."+strconv.FormatInt(d.wall().UnixNano(), 36))
	if err := d.fs.Rename(dir, to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// EmptyTrash deletes what Discard leaves, and first what an earlier process left, until ctx ends, for which it waits
// between two files; the rest is the next process's. What cannot be deleted is logged and tried again.
func (d *DataDir) EmptyTrash(ctx context.Context) error {
	for {
		var again <-chan time.Time
		d.closeAbandoned()
		if err := d.emptyTrash(ctx); err != nil {
			d.logger.Warn("deleted partitions still take space; trying again", "dir", d.file(trashName), "err", err)
			again = time.After(trashAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-d.trash.wake:
		}
	}
}

// emptyTrash deletes what is in the trash now.
func (d *DataDir) emptyTrash(ctx context.Context) error {
	entries, err := os.ReadDir(d.file(trashName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil
		}
		err = errors.Join(err, d.removeTree(ctx, filepath.Join(d.file(trashName), e.Name())))
	}
	return err
}

// closeAbandoned waits until nothing is under way in the discarded logs and shuts their files.
func (d *DataDir) closeAbandoned() {
	d.trash.mu.Lock()
	keys := make([]partitionKey, 0, len(d.trash.closing))
	for key := range d.trash.closing {
		keys = append(keys, key)
	}
	d.trash.mu.Unlock()
	for _, key := range keys {
		d.letGo(key)
	}
}

// letGo waits until nothing is under way in the discarded log of a partition, if there is one: it goes by file names that
// the partition's next log has, too.
func (d *DataDir) letGo(key partitionKey) {
	d.trash.mu.Lock()
	l := d.trash.closing[key]
	d.trash.mu.Unlock()
	if l == nil {
		return
	}
	_ = l.Close() // an abandoned log has nothing to fail with, an earlier failure has been logged
	d.trash.mu.Lock()
	defer d.trash.mu.Unlock()
	if d.trash.closing[key] == l {
		delete(d.trash.closing, key)
	}
}
