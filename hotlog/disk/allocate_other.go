//go:build !linux

package disk

// Allocate gives an empty file size bytes of real space.
func Allocate(f File, size int64) error { return fill(f, size) }
