package hotlog

import (
	"context"
	"io"
	"os"
	"time"

	"tidemark/record"
	"tidemark/record/producer"
)

// Log is one partition's log.
type Log struct{}

// Open recovers the log in o.Dir (made if absent): ready or nothing.
func Open(ctx context.Context, o Options) (*Log, error) { panic("skeleton") }

// Append appends whole, judged batches; see AppendRequest. Errors: producer.Err…, ErrNotNext, ErrDiskFull, ErrFailed, ErrClosed, ErrBadAppend.
func (l *Log) Append(req AppendRequest) (Appended, error) { panic("skeleton") }

// Read returns whole batches of one segment file from the first whose last offset is >= from, ending at or below bound.
func (l *Log) Read(from, bound record.Offset, maxBytes int, atLeastOne bool) (*Section, error) {
	panic("skeleton")
}

// Range is Read without a byte limit (for uploads).
func (l *Log) Range(from, to record.Offset) (*Section, error) { panic("skeleton") }

// Section is a run of whole batches in one file; Release it. Len 0 is empty (its Next is where to read on).
type Section struct {
	File        *os.File
	Pos, Len    int64
	First, Next record.Offset
}

// ReadAt reads relative to the section.
func (s *Section) ReadAt(p []byte, off int64) (int, error) { panic("skeleton") }

// WriteTo sends the section: sendfile when w is a TCP connection.
func (s *Section) WriteTo(w io.Writer) (int64, error) { panic("skeleton") }

// WriteRange sends n bytes from off (relative) on, for encoders that interleave.
func (s *Section) WriteRange(w io.Writer, off, n int64) (int64, error) { panic("skeleton") }

// Release gives the file back; idempotent.
func (s *Section) Release() { panic("skeleton") }

// Bounds is lock-free.
func (l *Log) Bounds() Bounds { panic("skeleton") }

// FirstUndecided is the first offset of the earliest transaction that is open or whose marker is at or above hw.
func (l *Log) FirstUndecided(hw record.Offset) (record.Offset, bool) { panic("skeleton") }

// Aborted lists the aborted transactions that have records in [from, to).
func (l *Log) Aborted(from, to record.Offset) []producer.Aborted { panic("skeleton") }

// Epochs is an immutable copy.
func (l *Log) Epochs() record.EpochHistory { panic("skeleton") }

// AssignEpoch begins an epoch at the log's end (a new leader).
func (l *Log) AssignEpoch(epoch record.Epoch) error { panic("skeleton") }

// TrimEpochs forgets epochs that ended at or below start (the catalog's), keeping the one in force.
func (l *Log) TrimEpochs(start record.Offset) { panic("skeleton") }

// Producers is a copy of the state at the log's end.
func (l *Log) Producers() *producer.State { panic("skeleton") }

// ExpireProducers forgets idle producer ids by Config.ProducerExpiry; returns how many.
func (l *Log) ExpireProducers() int { panic("skeleton") }

// TimePoint answers lookups by time.
type TimePoint struct {
	Offset    record.Offset
	Timestamp int64
	Epoch     record.Epoch
}

// OffsetForTime is the first record with offset in [from, bound) and timestamp >= ts.
func (l *Log) OffsetForTime(ts int64, from, bound record.Offset) (TimePoint, bool, error) {
	panic("skeleton")
}

// MaxTimestamp is the first record of [from, bound) that has the largest timestamp.
func (l *Log) MaxTimestamp(from, bound record.Offset) (TimePoint, bool, error) { panic("skeleton") }

// Segments, oldest first.
func (l *Log) Segments() []SegmentInfo { panic("skeleton") }

// Roll seals the active segment; no-op when it is empty.
func (l *Log) Roll(reason RollReason) error { panic("skeleton") }

// Free removes whole sealed segments with next <= below.
func (l *Log) Free(below record.Offset) (int64, error) { panic("skeleton") }

// TruncateTo makes to the end of the log (a batch that crosses it goes too). ErrBelowLocal below localStart: use Reset.
func (l *Log) TruncateTo(to record.Offset) error { panic("skeleton") }

// Reset drops the log and begins at start with the tier's state; state may be nil.
func (l *Log) Reset(start record.Offset, epochs record.EpochHistory, state *producer.State) error {
	panic("skeleton")
}

// Flush syncs all and stores the recovery point, which it returns.
func (l *Log) Flush() (record.Offset, error) { panic("skeleton") }

// FlushDue reports that FlushInterval has passed since the oldest unsynced append.
func (l *Log) FlushDue() bool { panic("skeleton") }

// Close flushes and closes; the next Open needs no scan. Idempotent.
func (l *Log) Close() error { panic("skeleton") }

// Failed is nil, or why the log is not touched again (wraps ErrFailed).
func (l *Log) Failed() error { panic("skeleton") }

// SetConfig changes the settings while the log runs.
func (l *Log) SetConfig(c Config) error { panic("skeleton") }

// FileLimit bounds reads in flight and open sealed segments.
type FileLimit struct{}

// NewFileLimit returns a limit to share over all logs.
func NewFileLimit(reads, openSegments int) *FileLimit { panic("skeleton") }

// DataDirOptions say which directory and how to see the kernel.
type DataDirOptions struct {
	Path string
	Wall func() time.Time
}

// DataDir is the locked data directory.
type DataDir struct{}

// OpenDataDir locks it (ErrInUse) and takes away the clean mark.
func OpenDataDir(o DataDirOptions) (*DataDir, error) { panic("skeleton") }

// Bind writes the identity or compares it (ErrForeign).
func (d *DataDir) Bind(clusterID string, broker int32) error { panic("skeleton") }

// ClusterID is the stored identity, "" before the first Bind.
func (d *DataDir) ClusterID() string { panic("skeleton") }

// MayKeepIncarnation per H4.
func (d *DataDir) MayKeepIncarnation() (int64, bool) { panic("skeleton") }

// SetIncarnation stores what the catalog gave.
func (d *DataDir) SetIncarnation(incarnation int64) error { panic("skeleton") }

// MarkClean at a clean stop, after every log is closed. Refused after MarkFailed.
func (d *DataDir) MarkClean() error { panic("skeleton") }

// MarkFailed after a failed write or fsync: the next start is unclean.
func (d *DataDir) MarkFailed() error { panic("skeleton") }

// PartitionDir is one partition's directory that exists.
type PartitionDir struct {
	Topic     [16]byte
	Partition int32
	Path      string
}

// List of the partitions here.
func (d *DataDir) List() ([]PartitionDir, error) { panic("skeleton") }

// Path of a partition's directory (not made).
func (d *DataDir) Path(topic [16]byte, partition int32) string { panic("skeleton") }

// Remove deletes a partition whose topic was deleted: rename, then delete.
func (d *DataDir) Remove(topic [16]byte, partition int32) error { panic("skeleton") }

// SetAside moves a directory that the catalog does not know into stray/.
func (d *DataDir) SetAside(p PartitionDir) error { panic("skeleton") }

// SweepStray deletes what was set aside more than 7 days ago.
func (d *DataDir) SweepStray() (int, error) { panic("skeleton") }

// Reserve makes the ballast file.
func (d *DataDir) Reserve(size int64) error { panic("skeleton") }

// ReleaseReserve gives its space back.
func (d *DataDir) ReleaseReserve() error { panic("skeleton") }

// FreeSpace in bytes, and the disk's size.
func (d *DataDir) FreeSpace() (free, total int64, err error) { panic("skeleton") }

// Probe is a small synced write (H28's lease gate).
func (d *DataDir) Probe(ctx context.Context) error { panic("skeleton") }

// Close gives the lock back.
func (d *DataDir) Close() error { panic("skeleton") }
