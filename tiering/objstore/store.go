package objstore

import (
	"context"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"time"
)

// Store keeps immutable objects under keys that ValidateKey accepts. All methods are safe for concurrent use, bound
// each request by a deadline of their own below ctx's, and return *Error values that name operation and key.
type Store interface {
	// Put stores src under key, which was never used before. It is durable (as far as the store promises that) when
	// Put returns nil. After an error for which Unclear holds the object may or may not be there, now or later; after
	// any other error this call stored nothing. src is not read after Put has returned.
	Put(ctx context.Context, key string, src Source, opts PutOptions) error

	// ReadRange fills dst with the object's bytes from off on. It returns nil only if all of dst was filled with bytes
	// of one object; dst's content after an error is undefined. An object that ends before off+len(dst) is ErrRange,
	// none at all ErrNotFound. The caller owns dst.
	ReadRange(ctx context.Context, key string, off int64, dst []byte) error

	// Stat asks for one object's size, or ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)

	// Delete removes the object and ends the unfinished multipart uploads that were reported for key. What is not there
	// is a success. After an error repeat it.
	Delete(ctx context.Context, key string, uploads ...string) error

	// List returns up to limit objects whose key begins with prefix and is greater than after, by key. Fewer than limit
	// means that there are no more. For rebuild, verify, gc tools and tests only.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
}

// StoreCloser is what a driver's Open gives: a Store that owns connections.
type StoreCloser interface {
	Store
	io.Closer
}

// Source is what Put stores: Size bytes from offset 0 of a reader that every attempt reads afresh. SHA256 is of the
// whole; it signs the request. Zero means that the driver computes it. CRC32C (Castagnoli) is of the whole, too: bytes
// that are no longer what they were when it was computed are not stored (A7). Zero means that SHA256 has to tell, which
// costs ten times as much where no service reckons it.
type Source struct {
	io.ReaderAt
	Size   int64
	SHA256 [sha256.Size]byte
	CRC32C uint32
}

// PutOptions go with one Put.
type PutOptions struct {
	// Attempt is the random attempt id that is also in the key. Kept as metadata, it tells after a lost reply of a
	// multipart upload's last request whether the object that is there is this one. Needed when the source is larger
	// than MaxSinglePut.
	Attempt string

	// OnUpload is called with the id of a multipart upload before any part is sent, so that the caller can record it
	// and have Delete end it if this process dies. An error ends the upload and is returned. Needed when the source is
	// larger than MaxSinglePut; never called for smaller ones.
	OnUpload func(ctx context.Context, uploadID string) error
}

// MaxSinglePut is the largest object, in bytes, that is stored by one request: 64 MiB of batches, as a full segment has
// them, and the blocks behind them (1 PUT per segment); key digests of small records take 13 MiB.
const MaxSinglePut = 80 << 20

// Info describes one object. Modified is the store's clock.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time
}

// Bytes is a Source over b, which must not change until Put has returned.
func Bytes(b []byte) Source {
	return Source{
		ReaderAt: byteReader(b), Size: int64(len(b)),
		SHA256: sha256.Sum256(b), CRC32C: crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)),
	}
}

type byteReader []byte

func (b byteReader) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
