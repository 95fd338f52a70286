package remote

import (
	"context"
	"io"

	"tidemark/tiering/objstore"
)

// Objects sends one request for one object and does not retry. Keys are whole (prefix included). Errors are the
// client's own; Options.Code reads the service's error code from them.
type Objects interface {
	Put(ctx context.Context, r PutRequest) error
	// GetRange asks for n bytes from off, If-Match etag unless that is empty. The caller closes Body.
	GetRange(ctx context.Context, key string, off, n int64, etag string) (Reply, error)
	Head(ctx context.Context, key string) (Head, error)
	Delete(ctx context.Context, key string) error
	// List gives one page of at most limit keys after the key after, and whether there is more.
	List(ctx context.Context, prefix, after string, limit int) (page []objstore.Info, more bool, err error)
}

// Uploads sends one request of a multipart upload and does not retry.
type Uploads interface {
	// Create begins an upload whose parts will carry checksums if withCRC.
	Create(ctx context.Context, key, attempt string, withCRC bool) (uploadID string, err error)
	Part(ctx context.Context, uploadID string, number int, r PutRequest) (Part, error)
	Complete(ctx context.Context, key, uploadID string, parts []Part) error
	Abort(ctx context.Context, key, uploadID string) error
}

// PutRequest is one object or one part. Body is at its start, is Size bytes long, and belongs to this request alone.
// SHA256, in hexadecimal, signs it. CRC32C, in base64, is empty unless native checksums are on. Attempt goes into the metadata unless it is empty.
type PutRequest struct {
	Key     string
	Body    io.ReadSeeker
	Size    int64
	SHA256  string
	CRC32C  string
	Attempt string
}

// Reply is the answer to a range read. ContentRange is the header's text, empty if the service sent all of the object.
type Reply struct {
	Body         io.ReadCloser
	ContentRange string
	ETag         string
}

// Head is what a HEAD request tells; Attempt is empty if the metadata has none.
type Head struct {
	Info    objstore.Info
	Attempt string
}

// Part is one part as Complete wants it named.
type Part struct {
	Number int
	ETag   string
	CRC32C string
}

// AttemptMeta is the name of the metadata entry that holds the attempt id (x-amz-meta-…).
const AttemptMeta = "tidemark-attempt"
