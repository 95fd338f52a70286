//go:build !linux

package hotlog

import "io"

// sendFile leaves the work to a copy through a buffer.
func sendFile(io.Writer, *Section, int64, int64) (int64, bool, error) { return 0, false, nil }
