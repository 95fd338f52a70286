package disk

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Ahead implements File.
func (f osFile) Ahead(size, to int64) error {
	if to <= size {
		return f.giveBack(size)
	}
	for {
		err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, size, to-size)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// giveBack cuts the file to the size that it has, which frees the blocks beyond. Nothing was written, so the time of the
// last write stays, where the system lets it.
func (f osFile) giveBack(size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	_ = os.Chtimes(f.Name(), time.Time{}, info.ModTime())
	return nil
}

// Surplus is how many bytes of the disk a file takes beyond its size, 0 where that is not known.
func Surplus(info os.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	return max(0, st.Blocks*512-st.Size)
}
