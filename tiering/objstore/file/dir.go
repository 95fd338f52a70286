package file

import (
	"errors"
	"fmt"
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

// mounted finds out that the folder is the one that Open prepared: a disk that is not mounted must not look like one whose
// objects are lost, nor like one from which they have been deleted.
func (s *Store) mounted() error {
	if _, err := os.Stat(filepath.Join(s.root, tempDir)); err != nil {
		return fmt.Errorf("the bucket's folder %s is not there: is its disk mounted?", s.root)
	}
	return nil
}

// failed makes the error that the caller sees.
func (s *Store) failed(op, key string, err error) error {
	switch {
	case isAbsent(err):
		if gone := s.mounted(); gone != nil {
			err = gone
		} else if op != "put" {
			err = errors.Join(objstore.ErrNotFound, err)
		}
	case errors.Is(err, fs.ErrPermission):
		err = errors.Join(objstore.ErrDenied, err)
	}
	return &objstore.Error{Op: op, Key: key, Attempts: 1, Err: err}
}
