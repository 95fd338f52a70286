package compaction

import (
	"context"
	"errors"
	"time"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// ErrInput: an object of a live row is lost, damaged, or not what its row says. Nothing was made of it; the
// partition waits until somebody has repaired it (A18).
var ErrInput = errors.New("compaction: an input object is lost or damaged")

// Objects is the object tier as a worker sees it. Errors wrap ErrInput where an object is at fault; all
// others may pass by themselves.
type Objects interface {
	// Open reads what an object says of itself: at most one small GET.
	Open(ctx context.Context, row catalog.Segment) (Object, error)
	// Begin begins an object in place of live ones.
	Begin(ctx context.Context, o Output) (Writer, error)
	// Replaced tells that a swap has put row into the place of others, so that nobody here reads them.
	Replaced(row catalog.Segment)
}

// Object is one live object. Its readers are used one after the other or at once, by one goroutine.
type Object interface {
	// Digests is the number of keys in its digest block, false if it has none.
	Digests() (n int64, ok bool)
	// Aborted lists the aborted transactions that have a record or their marker in it.
	Aborted() producer.AbortedList
	// ReadDigests reads the digest block from the first key on that is not below from, about buffer bytes a GET.
	ReadDigests(from [16]byte, buffer int) DigestReader
	// ReadBatches begins to read all of it, ahead of who asks by at most buffer bytes, and a batch.
	ReadBatches(ctx context.Context, buffer int) BatchReader
	// Producers is the producers' state at its end.
	Producers(ctx context.Context) (*producer.State, error)
}

// DigestReader gives the last committed record of each key, by rising key. io.EOF comes after the block's
// checksum was found right, if all of it was read.
type DigestReader interface {
	Next(ctx context.Context) (key [16]byte, last record.Offset, tombstone bool, err error)
}

// BatchReader gives batches in offset order, each until the next call, and says which is the object's
// last. io.EOF comes after length and SHA-256 of the whole were found right. It must be closed; nothing of it is at work
// after that.
type BatchReader interface {
	Next(ctx context.Context) (batch []byte, last bool, err error)
	Close()
}

// Output is what a new object is to be. Its state at the end is the last row's.
type Output struct {
	Job     catalog.Job
	Rows    []catalog.Segment // the replaced ones, adjacent, in offset order
	Last    Object            // of the last of them
	Aborted producer.AbortedList
	Digests bool // a digest block is wanted
	// SizeHint is about how many bytes of batches will come.
	SizeHint int64
	// Relies is the end of the rows by which it was judged what goes, 0 if nothing does.
	Relies record.Offset
}

// Writer makes one object. It is used up by Commit, or dropped.
type Writer interface {
	// Append copies a batch, which is judged as at produce.
	Append(batch []byte) error
	// AppendUnread copies a batch whose records cannot be decoded (H19).
	AppendUnread(batch []byte) error
	// Commit stores the object under an intent of the job and reads its end back; the row is ready for
	// a swap. aborted is what is left of Output.Aborted (C2).
	Commit(ctx context.Context, aborted producer.AbortedList, cleanSince int64) (catalog.Segment, error)
}

// Catalog is what a worker needs of the catalog; [catalog.Store] has it.
type Catalog interface {
	catalog.Jobs
	// ListSegments lists live rows in offset order.
	ListSegments(ctx context.Context, p catalog.PartitionID, from record.Offset, limit int) ([]catalog.Segment, error)
	// Time is the database's clock.
	Time(ctx context.Context) (time.Time, error)
}
