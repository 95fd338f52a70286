package tiering

import (
	"context"
	"io"
	"os"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/record/producer"
)

// ReadRequest asks for batches of the object tier.
type ReadRequest struct {
	Partition catalog.PartitionID
	// From is the first offset wanted. The answer begins with the first batch whose last offset is
	// ≥ From, so it may begin below it.
	From record.Offset
	// Bound is exclusive: no batch with a base ≥ Bound is returned. The caller gives the smaller of
	// what the reader may see and what it wants from this tier.
	Bound record.Offset
	// MaxBytes bounds the answer; with AtLeastOne the first batch is returned even if it alone is
	// larger (KIP-74). An answer ends at the latest where its chunk does (Options.ChunkBytes).
	MaxBytes   int64
	AtLeastOne bool
	// Committed asks for the list of aborted transactions (read_committed).
	Committed bool
	// Owner is whom turns at downloading are given to: the connection (L9).
	Owner uint64
}

// Chunk is an answer: whole batches in offset order, whose CRCs were checked when they were
// downloaded. They lie in the cache, pinned until Release.
type Chunk struct {
	// Size is the length of the batches in bytes. 0: the first one is larger than MaxBytes and
	// AtLeastOne was not set (then Next is From), or [From, Next) holds no batch.
	Size int64
	// Next is where to go on.
	Next record.Offset
	// Aborted lists the aborted transactions that may have records in the returned range.
	Aborted []producer.Aborted

	pin *pin
	at  int64 // in the pinned chunk
}

// Section gives a file and the offset in it where the batches lie, for sendfile, after checking that
// the cached bytes are what was downloaded. Do not close the file, nor use it after Release. ok is false
// if the chunk is only in memory or empty: use ReadAt.
func (c *Chunk) Section() (f *os.File, at int64, ok bool, err error) {
	if c.pin == nil {
		return nil, 0, false, nil
	}
	return c.pin.handle.Section(c.at, c.Size)
}

// ReadAt reads the batches from off on, checked as by Section.
func (c *Chunk) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= c.Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > c.Size-off
	if short {
		p = p[:c.Size-off]
	}
	n, err := c.pin.handle.ReadAt(p, c.at+off)
	if n == len(p) {
		err = nil
		if short {
			err = io.EOF
		}
	}
	return n, err
}

// Bytes copies the batches to memory.
func (c *Chunk) Bytes() ([]byte, error) {
	b := make([]byte, c.Size)
	if len(b) == 0 {
		return b, nil
	}
	_, err := c.ReadAt(b, 0)
	return b, err
}

// Release unpins the batches. It may be called more than once.
func (c *Chunk) Release() {
	if c.pin != nil {
		c.pin.release()
		c.pin, c.Size = nil, 0
	}
}

// Read waits for batches until they are there, the context ends or the read has failed. The download
// that it waits for goes on when the context ends (B16). Errors: ErrBelowStart, ErrAboveTier,
// ErrStorage, ErrClosed, the context's.
func (t *Tier) Read(ctx context.Context, req ReadRequest) (*Chunk, error) {
	chunk, pending, err := t.TryRead(req)
	if pending == nil {
		return chunk, err
	}
	select {
	case <-pending.Done():
		return pending.Take()
	case <-ctx.Done():
		pending.Cancel()
		return nil, ctx.Err()
	}
}
