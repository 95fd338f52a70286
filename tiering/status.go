package tiering

import (
	"time"

	"tidemark/catalog"
)

// Status is what `tier status` shows of one led partition's uploads.
type Status struct {
	// Bounds as last seen in the catalog.
	catalog.Bounds
	// Stalled says at which offset the upload has failed since StalledSince, and why; "" if the last
	// attempt succeeded (A1).
	Stalled      string
	StalledSince time.Time
	// Failures counts the failed attempts in a row.
	Failures int
	// Uploaded counts the objects published and UploadedBytes their size, since Lead.
	Uploaded      int64
	UploadedBytes int64
}

// Status returns the numbers of a led partition, false if it is not led here.
func (t *Tier) Status(p catalog.PartitionID) (Status, bool) {
	l := t.lane(p)
	if l == nil {
		return Status{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status, true
}
