package tiering

import (
	"context"
	"hash/crc32"

	"tidemark/catalog"
	"tidemark/tiering/inspect"
	"tidemark/tiering/object"
)

// errDigest: an object's bytes do not match its own checksums.
var errDigest = inspect.ErrDigest

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// inspectStep is how much of an object is read at once when all of it is.
const inspectStep = 4 << 20

// inspect reads a whole object and returns the row that would name it. Errors as inspect.Object.
func (t *Tier) inspect(ctx context.Context, key string) (catalog.Segment, error) {
	ctx, cancel := context.WithTimeout(ctx, t.o.PutTimeout)
	defer cancel()
	row, _, err := inspect.Object(ctx, t.upStore, key)
	return row, err
}

// rowOf is the catalog row of an object.
func rowOf(f *object.Footer, sum [32]byte) catalog.Segment { return inspect.Row(f, sum) }
