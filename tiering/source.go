package tiering

import (
	"context"
	"io"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// Source is one led partition as its uploads see it. Methods may be called at any time from any
// goroutine until Unlead has returned; calls for one partition never overlap, except Leadership.
type Source interface {
	// Leadership returns the guard of the present leadership, or false once the broker does not
	// lead any more: the upload in progress stops at its next step.
	Leadership() (catalog.Guard, bool)
	// Sealed returns the next run to upload: from the batch that holds from up to the end of a sealed
	// segment, wholly below min(hw, stable) (R6), cut at a batch edge to at most 64 MiB (P12) unless
	// one batch alone is larger. Nil, nil while there is none.
	Sealed(ctx context.Context, from record.Offset) (*Run, error)
	// Published tells the new bounds after each publish, and at Lead those found. It must not block.
	Published(b catalog.Bounds)
	// Hold reports whether the local log has all of [base, next) and, if so, keeps it from being freed
	// until release is called (R8: an intent may be given up only meanwhile).
	Hold(base, next record.Offset) (release func(), ok bool)
	// Agrees reports whether the local log was written in the same epochs where it has offsets of [base, next).
	Agrees(epochs record.EpochHistory, base, next record.Offset) bool
	// Damaged tells that local bytes at or after from failed their checks (A8); err wraps ErrDamaged.
	// The partition's upload is retried after a while, in case a peer has repaired it.
	Damaged(from record.Offset, err error)
}

// Run is a contiguous range of sealed batches. The receiver calls Release exactly once; until then
// the bytes stay where they are and do not change.
type Run struct {
	// Base is the base offset of the first batch; it lies below the offset asked for if that is
	// inside a batch. Next is the exclusive end.
	Base, Next record.Offset
	// Data holds the batches verbatim in [0, Size).
	Data io.ReaderAt
	Size int64
	// AppendTime is the broker's wall clock at the append of the last batch, ms (D8).
	AppendTime int64
	// Epochs is the partition's history at least up to Base. It is used only if the tier holds no
	// object that ends at Base; else the previous object's is continued (R2).
	Epochs record.EpochHistory
	// Producers is the state just before Base, for the same case; nil means none is known.
	Producers *producer.State
	// Aborted lists every aborted transaction with a record in [Base, Next), wherever its marker is.
	Aborted producer.AbortedList
	// Compacted asks for a digest block: the topic's cleanup.policy contains compact.
	Compacted bool
	// TopicName goes into the object's footer.
	TopicName string
	// Release gives the bytes back.
	Release func()
}
