//go:build !linux

package disk

import "errors"

// SyncAll implements FS.
func (OS) SyncAll(string) error { return errors.ErrUnsupported }
