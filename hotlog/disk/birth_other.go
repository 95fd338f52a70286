//go:build !linux

package disk

import "time"

// BirthTime is when a file was made; false where the file system does not say.
func BirthTime(string) (time.Time, bool) { return time.Time{}, false }
