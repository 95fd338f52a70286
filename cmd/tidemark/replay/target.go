package replay

import (
	"context"
	"errors"

	"tidemark/record"
)

// Target takes what is copied.
type Target interface {
	// begin prepares a replay that is new or goes on: producers, cut files. It is called once.
	begin(ctx context.Context, c *Checkpoint) error
	// lane is the copy of one source partition; it is called once a partition.
	lane(p int32) writer
	// sync makes durable what was written so far; under the checkpoint's lock.
	sync() error
	// note is what the user should know at the end, or "".
	note() string
	// Close gives files back.
	Close() error
}

// writer copies one partition. Used by one goroutine.
type writer interface {
	// resume returns the offset to go on at, after finding out what has already been copied.
	resume(ctx context.Context) (record.Offset, error)
	// write copies a block's part of [from, until) and returns where to go on. errRewind: resume has to be
	// called again.
	write(ctx context.Context, b Block, from, until record.Offset) (next record.Offset, err error)
}

// errRewind: what the target has is not what this process thought.
var errRewind = errors.New("replay: the target holds other sequence numbers")
