package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ErrLocked means that another process has the catalog open.
var ErrLocked = errors.New("the catalog is in use")

// lockFile takes the lock beside the database; it ends with the process that holds it.
func lockFile(path string) (*os.File, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 32)
		n, _ := f.ReadAt(holder, 0)
		_ = f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		return nil, fmt.Errorf("%w: process %s holds %s", ErrLocked, strings.TrimSpace(string(holder[:n])), name)
	}
	// Who holds it is for people only, so a failure to say so is none.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}
