package inspect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"

	"tidemark/catalog"
	"tidemark/tiering/object"
	"tidemark/tiering/objstore"
)

// ErrDigest: an object's bytes do not match its own checksums.
var ErrDigest = errors.New("checksum mismatch in an object")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// step is how much of an object is read at once when all of it is.
const step = 4 << 20

// Damaged reports whether err says that the object itself is lost or damaged, rather than that the store
// could not be asked.
func Damaged(err error) bool {
	for _, is := range []error{objstore.ErrNotFound, objstore.ErrRange, object.ErrFormat, object.ErrVersion, object.ErrShort, ErrDigest} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// Footer reads the footer of an object of so many bytes: one GET of at most object.MaxFooter bytes.
// Errors: the store's, object.ErrFormat, object.ErrVersion.
func Footer(ctx context.Context, store objstore.Store, key string, size int64) (*object.Footer, error) {
	if size < object.TrailerSize {
		return nil, fmt.Errorf("%w: %s has %d bytes", object.ErrFormat, key, size)
	}
	end := make([]byte, min(size, object.MaxFooter))
	if err := store.ReadRange(ctx, key, size-int64(len(end)), end); err != nil {
		return nil, err
	}
	f, err := object.ParseFooter(end, size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if f.Key() != key {
		return nil, fmt.Errorf("%w: %s calls itself %s", object.ErrFormat, key, f.Key())
	}
	return f, nil
}

// Sums are the checksums of an object's bytes as they were read.
type Sums struct {
	SHA256 [sha256.Size]byte
	Blocks []uint32 // CRC-32C, by the footer's block table
}

// Read reads a whole object of so many bytes and sums it up. before is asked before each GET of n
// bytes; nil is not asked. Errors: the store's, the context's, before's.
func Read(ctx context.Context, store objstore.Store, f *object.Footer, before func(ctx context.Context, n int64) error) (Sums, error) {
	whole, key, size := sha256.New(), f.Key(), f.ObjectBytes
	out := Sums{Blocks: make([]uint32, len(f.Blocks))}
	buf := make([]byte, min(size, step))
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), size-at)]
		if before != nil {
			if err := before(ctx, int64(len(buf))); err != nil {
				return out, err
			}
		}
		if err := store.ReadRange(ctx, key, at, buf); err != nil {
			return out, err
		}
		whole.Write(buf)
		for i, b := range f.Blocks {
			from, to := max(b.Position, at), min(b.Position+b.Length, at+int64(len(buf)))
			if from < to {
				out.Blocks[i] = crc32.Update(out.Blocks[i], castagnoli, buf[from-at:to-at])
			}
		}
	}
	out.SHA256 = [sha256.Size]byte(whole.Sum(nil))
	return out, nil
}

// Object reads a whole object and returns the row that would name it. Errors: the store's,
// object.ErrFormat, object.ErrVersion, ErrDigest.
func Object(ctx context.Context, store objstore.Store, key string) (catalog.Segment, *object.Footer, error) {
	info, err := store.Stat(ctx, key)
	if err != nil {
		return catalog.Segment{}, nil, err
	}
	f, err := Footer(ctx, store, key, info.Size)
	if err != nil {
		return catalog.Segment{}, nil, err
	}
	sums, err := Read(ctx, store, f, nil)
	if err != nil {
		return catalog.Segment{}, nil, err
	}
	for i, b := range f.Blocks {
		if sums.Blocks[i] != b.CRC {
			return catalog.Segment{}, nil, fmt.Errorf("%w: block %d, bytes [%d,%d) of %s", ErrDigest, b.Type, b.Position, b.Position+b.Length, key)
		}
	}
	return Row(f, sums.SHA256), f, nil
}

// Row is the catalog row of an object.
func Row(f *object.Footer, sum [sha256.Size]byte) catalog.Segment {
	return catalog.Segment{
		Partition: catalog.PartitionID{Topic: catalog.TopicID(f.Topic), Partition: f.Partition},
		Base:      f.Base, Next: f.Next, Bytes: f.ObjectBytes, Records: f.Records,
		MinTimestamp: f.MinTimestamp, MaxTimestamp: f.MaxTimestamp, AppendTime: f.AppendTime,
		Key: f.Key(), TailPosition: f.TailPosition, DataBytes: f.DataBytes, SHA256: sum,
		LeaderEpoch: f.LeaderEpoch, Generation: f.Generation, CleanSince: f.CleanSince, Attempt: f.Attempt,
	}
}
