package tiering

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"tidemark/catalog"
	"tidemark/record"
	"tidemark/tiering/cache"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// errMiss: a step that may not wait would have to.
var errMiss = errors.New("tiering: not in the caches")

// cached takes only what the caches have now.
type cached struct{ t *Tier }

func (c cached) row(_ context.Context, p catalog.PartitionID, o record.Offset) (catalog.Segment, error) {
	if s, fresh, _ := c.t.rows.get(p, o); fresh {
		return s, nil
	}
	return catalog.Segment{}, errMiss
}

func (c cached) tail(_ context.Context, s catalog.Segment) (*object.Tail, error) {
	if tail, ok := c.t.read.tails.TryGet(s.Key); ok {
		return tail, nil
	}
	return nil, errMiss
}

func (c cached) chunk(_ context.Context, ref chunkRef) (*cache.Handle, error) {
	h, err := c.t.o.Cache.TryGet(ref.key())
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, errMiss
	}
	return h, nil
}

// waiting asks the catalog and the bucket for what the caches have not.
type waiting struct{ t *Tier }

func (w waiting) row(ctx context.Context, p catalog.PartitionID, o record.Offset) (catalog.Segment, error) {
	return w.t.rows.at(ctx, w.t, p, o)
}

func (w waiting) tail(ctx context.Context, s catalog.Segment) (*object.Tail, error) {
	t := w.t
	tail, err := t.read.tails.Get(ctx, s.Key, func(ctx context.Context) (*object.Tail, int64, error) {
		return t.loadTail(ctx, t.store, s)
	})
	return tail, broken(s, err)
}

func (w waiting) chunk(ctx context.Context, ref chunkRef) (*cache.Handle, error) {
	h, err := w.t.o.Cache.Get(ctx, w.t.request(ref))
	return h, broken(ref.seg, err)
}

// broken marks the errors that say that the object of a row is lost or damaged.
func broken(s catalog.Segment, err error) error {
	for _, is := range []error{objstore.ErrNotFound, objstore.ErrRange, object.ErrFormat, errDigest} {
		if errors.Is(err, is) {
			return &brokenError{s, err}
		}
	}
	return err
}

// loadTail reads and parses a tail group: one GET.
func (t *Tier) loadTail(ctx context.Context, store objstore.Store, s catalog.Segment) (*object.Tail, int64, error) {
	size := s.Bytes - s.TailPosition
	if s.TailPosition <= 0 || size < object.TrailerSize || size > maxTail {
		return nil, 0, fmt.Errorf("%w: row says that the tail of %s is [%d,%d)", object.ErrFormat, s.Key, s.TailPosition, s.Bytes)
	}
	raw := make([]byte, size)
	if err := store.ReadRange(ctx, s.Key, s.TailPosition, raw); err != nil {
		return nil, 0, err
	}
	tail, err := object.ParseTail(raw, s.TailPosition, s.Bytes)
	if err != nil {
		return nil, 0, err
	}
	if tail.Base != s.Base || tail.Next != s.Next || tail.DataBytes != s.DataBytes {
		return nil, 0, fmt.Errorf("%w: %s holds [%d,%d), its row says [%d,%d)", object.ErrFormat, s.Key, tail.Base, tail.Next, s.Base, s.Next)
	}
	return tail, size, nil
}

// maxTail bounds what a row can make us allocate for a tail group.
const maxTail = 64 << 20

func (c chunkRef) key() cache.Key { return cache.Key{Object: c.seg.Key, Chunk: c.number} }

// request is the download of a chunk. Bytes that fail their checks are asked for once more, since the
// fault may be the network's.
func (t *Tier) request(c chunkRef) cache.Request {
	return cache.Request{Key: c.key(), Size: c.span.Bytes(), Owner: c.owner, Fill: func(ctx context.Context, dst []byte) error {
		var err error
		for range 2 {
			if err = t.store.ReadRange(ctx, c.seg.Key, c.span.From, dst); err != nil {
				return err
			}
			if err = checkBatches(dst, c.tail); err == nil {
				return nil
			}
		}
		return fmt.Errorf("%w: %s, bytes [%d,%d): %w", errDigest, c.seg.Key, c.span.From, c.span.To, err)
	}}
}

// yieldEvery is after how many bytes the checking of a chunk yields to who waits for little.
const yieldEvery = 256 << 10

// checkBatches wants whole batches with the right CRC, rising within the object's range (P2).
func checkBatches(b []byte, tail *object.Tail) error {
	next := tail.Base
	for len(b) > 0 {
		batch, rest, err := record.Split(b)
		if err != nil {
			return err
		}
		if err := record.CheckCRC(batch); err != nil {
			return err
		}
		h, err := record.ParseHeader(batch)
		if err != nil {
			return err
		}
		if h.BaseOffset < next || h.NextOffset() > tail.Next {
			return fmt.Errorf("batch [%d,%d) out of order or of [%d,%d)", h.BaseOffset, h.NextOffset(), tail.Base, tail.Next)
		}
		if len(b)/yieldEvery != len(rest)/yieldEvery {
			runtime.Gosched()
		}
		next, b = h.NextOffset(), rest
	}
	return nil
}
