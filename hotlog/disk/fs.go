package disk

import (
	"fmt"
	"os"
	"path/filepath"
)

// FS creates, renames and removes names. A name is durable only after SyncDir of
// its directory. Absent files are reported as fs.ErrNotExist, a full disk as
// syscall.ENOSPC.
type FS interface {
	// Open opens for reading and writing with os.O_CREATE, O_EXCL, O_TRUNC or
	// os.O_RDONLY as given.
	Open(name string, flag int) (File, error)
	Rename(old, to string) error
	// Remove unlinks a file or an empty directory.
	Remove(name string) error
	// MakeDir creates one directory; one that exists is no error.
	MakeDir(name string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// SyncAll makes everything on dir's file system durable. Error: errors.ErrUnsupported.
	SyncAll(dir string) error
}

// File is one open file. Reads go to OS directly.
type File interface {
	// WriteAt is one pwrite(2) unless the system takes less.
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
	// OS is the descriptor, for pread, fstat and sendfile only.
	OS() *os.File
}

// OS is the real file system.
type OS struct{}

type osFile struct{ *os.File }

func (f osFile) OS() *os.File { return f.File }

// Open implements FS.
func (OS) Open(name string, flag int) (File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR) == 0 && flag&os.O_CREATE != 0 {
		flag |= os.O_RDWR
	}
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements FS.
func (OS) Rename(old, to string) error { return os.Rename(old, to) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// MakeDir implements FS.
func (OS) MakeDir(name string) error {
	err := os.Mkdir(name, 0o755)
	if os.IsExist(err) {
		return nil
	}
	return err
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", filepath.Base(dir), err)
	}
	return nil
}
