package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"tidemark/tiering/objstore"
)

// makeDir makes dir and what is missing above it, and syncs each folder that got an entry, so that a synced object
// below cannot vanish with its folder.
func (s *Store) makeDir(dir string) error {
	if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := s.makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := syncDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a Delete took it again; the rename that follows finds out
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// isAbsent is true where nothing has that name, also where a file stands in the place of a folder.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// failed makes the error that the caller sees.
func failed(op, key string, err error) error {
	switch {
	case isAbsent(err) && op != "put":
		err = errors.Join(objstore.ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		err = errors.Join(objstore.ErrDenied, err)
	}
	return &objstore.Error{Op: op, Key: key, Attempts: 1, Err: err}
}
