package catalog

import (
	"context"
	"math"
	"time"

	"tidemark/record"
)

// Segment is a live row of the segments table: one object of the bucket and what it holds.
type Segment struct {
	ID        SegmentID
	Partition PartitionID
	Base      record.Offset // inclusive
	Next      record.Offset // exclusive
	Bytes     int64         // of the whole object
	Records   int64
	// MinTimestamp and MaxTimestamp are of the records, ms; record.NoTimestamp if it has none.
	MinTimestamp, MaxTimestamp int64
	// MaxTimestampUpto is the largest timestamp from start to this row, set by the store (H25).
	MaxTimestampUpto int64
	// AppendTime is the broker's wall clock at the append of the last batch, ms (D8).
	AppendTime int64
	Key        string
	// TailPosition is where the tail group of blocks begins in the object (P5); DataBytes where the
	// batches end.
	TailPosition int64
	DataBytes    int64
	SHA256       [32]byte
	LeaderEpoch  record.Epoch
	// Generation counts rewrites: 0 as uploaded.
	Generation int32
	// CleanSince is the database time, ms, since when the tier holds no older record of any key that
	// has a tombstone in this row, nor a record of a transaction whose marker in it may go (R15).
	// 0: no compaction has found that; Spotless: one has, and nothing in the row waits to be removed.
	CleanSince int64
	// Attempt is the random id in the key; unique for ever.
	Attempt string
}

// Spotless is the CleanSince of a row that holds no tombstone and no marker that will become due.
const Spotless int64 = math.MaxInt64

// Segments finds live rows. Each call is one index probe, whatever the number of rows.
type Segments interface {
	// SegmentAt returns the row that covers offset o. ErrNotFound below the first or at/above tiered.
	SegmentAt(ctx context.Context, p PartitionID, o record.Offset) (Segment, error)
	// SegmentAtTime returns the first row with MaxTimestampUpto ≥ ts: the answer for ts is in it, or,
	// if it has no such record at or above start, in NextAtTime.
	SegmentAtTime(ctx context.Context, p PartitionID, ts int64) (Segment, error)
	// NextAtTime returns the first row with base ≥ from whose own MaxTimestamp ≥ ts.
	NextAtTime(ctx context.Context, p PartitionID, from record.Offset, ts int64) (Segment, error)
	// LatestInTime returns the row with the largest MaxTimestamp, the lowest base among equals.
	LatestInTime(ctx context.Context, p PartitionID) (Segment, error)
	// ListSegments returns up to limit rows in offset order, from the one that covers from on.
	ListSegments(ctx context.Context, p PartitionID, from record.Offset, limit int) ([]Segment, error)
}

// Intent is written before an object is put, and deleted by whoever decides its fate (R9).
type Intent struct {
	Attempt   string
	Partition PartitionID
	Base      record.Offset
	Next      record.Offset
	Key       string
	Guard     Guard
	// UploadID of a multipart upload in progress, "" if there is none (J14).
	UploadID string
	// Job is the job that the attempt belongs to, 0 for an upload by the leader.
	Job     int64
	Created time.Time // database time
}

// Uploads is the life of an object until it is published or given up (R4, R8, R9).
type Uploads interface {
	// PutIntent writes the row. The guard is checked. ErrFenced, ErrGarbage, ErrUnknownTopic. The same
	// attempt again is answered as before.
	PutIntent(ctx context.Context, in Intent) error
	// SetUploadID notes a multipart upload in the intent's row before its first part is sent. The
	// guard is the leader's, or for a job's intent the job's. ErrIntentGone, ErrFenced.
	SetUploadID(ctx context.Context, attempt string, g Guard, uploadID string) error
	// Publish makes the segment live: guard checked, base == tiered (or base ≤ start == tiered <
	// next), intent deleted, row inserted, tiered moved, in one transaction. If the row of this
	// attempt is already there it is answered as published. ErrFenced, ErrIntentGone,
	// ErrNotContiguous, ErrUnknownTopic.
	Publish(ctx context.Context, g Guard, s Segment) (Bounds, error)
	// GiveUp deletes the intent and writes the garbage row in one transaction, refused with ErrFenced
	// if the guard does not hold: the leader's, or for a job's intent the job's (broker, incarnation,
	// epoch). An attempt that is garbage already is answered as given up; one that is neither intent
	// nor garbage is ErrIntentGone (decided by another).
	GiveUp(ctx context.Context, g Guard, attempt string) error
	// Intents lists the intents of a partition.
	Intents(ctx context.Context, p PartitionID) ([]Intent, error)
}

// GarbageRow names an object that is to be deleted (R8).
type GarbageRow struct {
	Key      string
	UploadID string // of a multipart upload to abort, or ""
	Since    time.Time
	Deletes  int // how many DELETEs have been done
}

// Removals moves start and looks after garbage (R8).
type Removals interface {
	// MoveStart raises start to o, and tiered with it if it lies below, in one statement. Rows wholly
	// below start become garbage, up to 1 000 in the same transaction; more says that rows are left,
	// for another call with the same o. A lower o changes nothing. ErrFenced.
	MoveStart(ctx context.Context, p PartitionID, g Guard, o record.Offset) (b Bounds, more bool, err error)
	// DueGarbage lists rows whose next DELETE is due: the first one grace after the row was written,
	// the second one `again` after the first. Times are the database's.
	DueGarbage(ctx context.Context, grace, again time.Duration, limit int) ([]GarbageRow, error)
	// GarbageIs reads a row again, right before the DELETE: false if no garbage row names the key
	// or a live segment or an intent does.
	GarbageIs(ctx context.Context, key string) (bool, error)
	// Deleted notes a successful DELETE of a row that DueGarbage has listed: the first counts, the
	// second drops the row. It counts once per listing, so neither a repeat after an unclear COMMIT nor
	// a second worker turns one DELETE into two (D16), be its listing however late; an unknown key is no error.
	Deleted(ctx context.Context, key string) error
	// CountGarbage is the number of garbage rows of the cluster.
	CountGarbage(ctx context.Context) (int64, error)
}

// Job is leased work on one partition's objects that any broker may do: a merge or a compaction.
type Job struct {
	ID          int64
	Partition   PartitionID
	Kind        string // "merge" or "compact"
	Broker      BrokerID
	Incarnation Incarnation
	// Epoch rises whenever the job is taken; a swap with an older one is fenced.
	Epoch int64
	Lease int64
}

// Jobs hands out leased work and swaps rows for it (R4, R10).
type Jobs interface {
	// TakeJob makes or takes over the job of (partition, kind). A held job is taken only if seen
	// names its present lease (the caller has watched it stand still); else ErrHeld, and the job as
	// its holder has it. b is NoBroker for a worker that is no broker: inc, random, tells them apart.
	TakeJob(ctx context.Context, p PartitionID, kind string, b BrokerID, inc Incarnation, seen int64) (Job, error)
	// RenewJob raises the lease. ErrFenced.
	RenewJob(ctx context.Context, j Job) (Job, error)
	// EndJob deletes the job; its left intents become garbage in the same transaction. ErrFenced.
	EndJob(ctx context.Context, j Job) error
	// PutJobIntent is PutIntent fenced by the job instead of a leader.
	PutJobIntent(ctx context.Context, j Job, in Intent) error
	// Swap replaces whole live rows by new ones of exactly the same union, in one transaction: job
	// epoch checked, old rows live and adjacent, intents of the new attempts deleted, old keys to
	// garbage, tier_bytes and max_ts_upto kept right. A swap that already happened is answered as
	// done. ErrFenced, ErrIntentGone, ErrNotContiguous.
	Swap(ctx context.Context, j Job, old []SegmentID, new []Segment) error
	// MarkClean sets CleanSince of live rows of the job's partition; a row that is gone is passed over.
	// ErrFenced.
	MarkClean(ctx context.Context, j Job, rows []SegmentID, since int64) error
}
