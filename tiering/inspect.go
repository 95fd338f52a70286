package tiering

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"

	"tidemark/catalog"
	"tidemark/tiering/object"
)

// errDigest: an object's bytes do not match its own checksums.
var errDigest = errors.New("tiering: checksum mismatch in an object")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// inspectStep is how much of an object is read at once when all of it is.
const inspectStep = 4 << 20

// inspect reads a whole object and returns the row that would name it. Errors: the store's,
// object.ErrFormat, object.ErrVersion, errDigest.
func (t *Tier) inspect(ctx context.Context, key string) (catalog.Segment, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.PutTimeout)
	defer cancel()
	info, err := t.upStore.Stat(ctx, key)
	if err != nil {
		return catalog.Segment{}, err
	}
	if info.Size < object.TrailerSize {
		return catalog.Segment{}, fmt.Errorf("%w: %s has %d bytes", object.ErrFormat, key, info.Size)
	}
	end := make([]byte, min(info.Size, object.MaxFooter))
	if err := t.upStore.ReadRange(ctx, key, info.Size-int64(len(end)), end); err != nil {
		return catalog.Segment{}, err
	}
	f, err := object.ParseFooter(end, info.Size)
	if err != nil {
		return catalog.Segment{}, fmt.Errorf("%s: %w", key, err)
	}
	if f.Key() != key {
		return catalog.Segment{}, fmt.Errorf("%w: %s calls itself %s", object.ErrFormat, key, f.Key())
	}
	whole, crc := sha256.New(), uint32(0)
	buf := make([]byte, min(info.Size, inspectStep))
	for at := int64(0); at < info.Size; at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), info.Size-at)]
		if err := t.upStore.ReadRange(ctx, key, at, buf); err != nil {
			return catalog.Segment{}, err
		}
		whole.Write(buf)
		if data := f.DataBytes - at; data > 0 {
			crc = crc32.Update(crc, castagnoli, buf[:min(data, int64(len(buf)))])
		}
	}
	if crc != f.Blocks[0].CRC {
		return catalog.Segment{}, fmt.Errorf("%w: data of %s", errDigest, key)
	}
	return rowOf(f, [32]byte(whole.Sum(nil))), nil
}
