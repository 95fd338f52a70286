//go:build !linux

package disk

import (
	"errors"
	"os"
)

// Ahead implements File.
func (osFile) Ahead(int64, int64) error { return errors.ErrUnsupported }

// Surplus is how many bytes of the disk a file takes beyond its size, 0 where that is not known.
func Surplus(os.FileInfo) int64 { return 0 }
