package disk

import "sync/atomic"

// Batch is a file system whose syncs can be put off while very many small files are written, so that one
// [FS.SyncAll] makes all of them durable: a fsync each costs a journal commit each.
type Batch struct {
	FS
	off atomic.Bool
}

// NewBatch returns to with syncs that happen.
func NewBatch(to FS) *Batch { return &Batch{FS: to} }

// PutOff makes Sync and SyncDir do nothing, or something again. Whoever puts them off has the logs to itself.
func (b *Batch) PutOff(off bool) { b.off.Store(off) }

// Open implements FS.
func (b *Batch) Open(name string, flag int) (File, error) {
	f, err := b.FS.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return batchFile{f, b}, nil
}

// SyncDir implements FS.
func (b *Batch) SyncDir(dir string) error {
	if b.off.Load() {
		return nil
	}
	return b.FS.SyncDir(dir)
}

type batchFile struct {
	File
	batch *Batch
}

// Sync implements File.
func (f batchFile) Sync() error {
	if f.batch.off.Load() {
		return nil
	}
	return f.File.Sync()
}
