package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// pacing is asked before each GET of n bytes.
type pacing func(ctx context.Context, n int64) error

// finding is what is wrong with one object.
type finding struct {
	kind   Kind
	detail string
}

// check compares a row with its object: existence, size and footer, and if deep every byte. nil is sound.
// An error is the context's.
func (a *Auditor) check(ctx context.Context, row catalog.Segment, deep bool, pace pacing) (*finding, error) {
	call, cancel := a.call(ctx)
	info, err := a.o.Store.Stat(call, row.Key)
	cancel()
	if err != nil {
		return judge(ctx, err)
	}
	if info.Size != row.Bytes {
		return &finding{Size, fmt.Sprintf("%d bytes, the row says %d", info.Size, row.Bytes)}, nil
	}
	call, cancel = a.call(ctx)
	f, err := inspect.Footer(call, a.o.Store, row.Key, info.Size)
	cancel()
	if err != nil {
		return judge(ctx, err)
	}
	if why := differs(row, inspect.Row(f, row.SHA256)); why != "" {
		return &finding{Footer, why}, nil
	}
	if !deep {
		return nil, nil
	}
	sums, err := inspect.Read(ctx, a.o.Store, f, pace)
	if err != nil {
		return judge(ctx, err)
	}
	for i, b := range f.Blocks {
		if sums.Blocks[i] != b.CRC {
			return &finding{Checksum, a.locate(ctx, row, f, b)}, nil
		}
	}
	if sums.SHA256 != row.SHA256 {
		return &finding{Checksum, fmt.Sprintf("SHA-256 %x, the row says %x", sums.SHA256, row.SHA256)}, nil
	}
	return nil, nil
}

// judge sorts an error of the store.
func judge(ctx context.Context, err error) (*finding, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, objstore.ErrNotFound):
		return &finding{Missing, "the bucket has no such object"}, nil
	case errors.Is(err, objstore.ErrRange):
		return &finding{Size, err.Error()}, nil
	case inspect.Damaged(err):
		return &finding{Footer, err.Error()}, nil
	}
	return &finding{Unreadable, err.Error()}, nil
}

// differs says in what a row differs from the one that its object's footer tells of; "" is nothing.
// clean_since moves without the object, and what the database sets is not in a footer.
func differs(row, told catalog.Segment) string {
	told.ID, told.MaxTimestampUpto, told.CleanSince = row.ID, row.MaxTimestampUpto, row.CleanSince
	if told == row {
		return ""
	}
	return fmt.Sprintf("the footer tells of %s [%d,%d), %d records, timestamps %d to %d, epoch %d, generation %d; the row of %s [%d,%d), %d records, timestamps %d to %d, epoch %d, generation %d",
		told.Partition, told.Base, told.Next, told.Records, told.MinTimestamp, told.MaxTimestamp, told.LeaderEpoch, told.Generation,
		row.Partition, row.Base, row.Next, row.Records, row.MinTimestamp, row.MaxTimestamp, row.LeaderEpoch, row.Generation)
}

// locate names the damaged place: the batch, if it lies in the data.
func (a *Auditor) locate(ctx context.Context, row catalog.Segment, f *object.Footer, b object.Block) string {
	where := fmt.Sprintf("bytes [%d, %d) (block %d) fail their CRC-32C", b.Position, b.Position+b.Length, b.Type)
	if b.Type != object.BlockData {
		return where
	}
	data := make([]byte, f.DataBytes)
	if err := a.o.Store.ReadRange(ctx, row.Key, 0, data); err != nil {
		return where
	}
	at := row.Base
	for rest := data; len(rest) > 0; {
		batch, after, err := record.Split(rest)
		if err == nil {
			err = record.CheckCRC(batch)
		}
		if err != nil {
			return fmt.Sprintf("the batch at byte %d, at or behind offset %d, is damaged: %v", len(data)-len(rest), at, err)
		}
		if h, err := record.ParseHeader(batch); err == nil {
			at = h.NextOffset()
		}
		rest = after
	}
	return where
}

// stillLive reports whether the row is there as it was: what has been removed or swapped meanwhile is no
// problem (R8). A catalog that cannot be asked counts as yes.
func (a *Auditor) stillLive(ctx context.Context, row catalog.Segment) bool {
	ctx, cancel := a.call(ctx)
	defer cancel()
	now, err := a.o.Catalog.SegmentAt(ctx, row.Partition, row.Base)
	if errors.Is(err, catalog.ErrNotFound) {
		return false
	}
	return err != nil || now.Attempt == row.Attempt && bytes.Equal(now.SHA256[:], row.SHA256[:])
}
