package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// SyncAll implements FS.
func (OS) SyncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}
