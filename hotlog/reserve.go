package hotlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tidemark/hotlog/disk"
)

// Reserve makes the ballast file of size bytes, allocated for real, so that there
// is space to give back when the disk is full (H18). Error: ErrDiskFull.
func (d *DataDir) Reserve(size int64) error {
	info, err := os.Stat(d.file(reserveName))
	if err == nil && info.Size() == size {
		return nil
	}
	f, err := d.fs.Open(d.file(reserveName), os.O_CREATE|os.O_TRUNC|os.O_RDWR)
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	err = disk.Allocate(f, size)
	err = errors.Join(err, f.Close())
	if err == nil {
		return nil
	}
	// A part of the ballast would only take what others need.
	err = errors.Join(err, d.ReleaseReserve())
	if disk.IsFull(err) {
		return fmt.Errorf("%w: reserve of %d bytes: %w", ErrDiskFull, size, err)
	}
	return fmt.Errorf("reserve of %d bytes: %w", size, err)
}

// ReleaseReserve gives the ballast's space back; Reserve makes it again.
func (d *DataDir) ReleaseReserve() error {
	return disk.RemoveIfThere(d.fs, d.file(reserveName))
}

// MakeRoom gives the ballast of a data directory back if its disk is so full that a start could not write, and
// says if it did. It is for what is opened before OpenDataDir, a catalog on the same disk above all; a directory
// that a process holds, or that is not there, is left alone.
func MakeRoom(path string) (bool, error) {
	ballast := filepath.Join(path, reserveName)
	info, err := os.Stat(ballast)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reserve: %w", err)
	}
	if free, _, err := disk.Space(path); err != nil || free >= info.Size()/2 {
		return false, err
	}
	lock, err := disk.Lock(filepath.Join(path, lockName))
	if errors.Is(err, disk.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reserve: %w", err)
	}
	return true, errors.Join(disk.RemoveIfThere(disk.OS{}, ballast), lock.Close())
}
