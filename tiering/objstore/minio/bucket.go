package minio

import (
	"context"
	"net/http"

	miniogo "github.com/minio/minio-go/v7"

	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/remote"
)

// bucket implements remote.Objects.
type bucket struct {
	client *miniogo.Core
	name   string
}

// crcHeader is sent as a plain header: minio-go's own checksum support would send a trailer.
const crcHeader = "x-amz-checksum-crc32c"

func putOptions(r remote.PutRequest) miniogo.PutObjectOptions {
	meta := map[string]string{}
	if r.Attempt != "" {
		meta[remote.AttemptMeta] = r.Attempt
	}
	if r.CRC32C != "" {
		meta[crcHeader] = r.CRC32C
	}
	return miniogo.PutObjectOptions{UserMetadata: meta, DisableMultipart: true, DisableContentSha256: true}
}

func (b *bucket) Put(ctx context.Context, r remote.PutRequest) error {
	_, err := b.client.PutObject(ctx, b.name, r.Key, r.Body, r.Size, "", r.SHA256, putOptions(r))
	return err
}

func (b *bucket) GetRange(ctx context.Context, key string, off, n int64, etag string) (remote.Reply, error) {
	var opts miniogo.GetObjectOptions
	if err := opts.SetRange(off, off+n-1); err != nil {
		return remote.Reply{}, err
	}
	if etag != "" {
		if err := opts.SetMatchETag(etag); err != nil {
			return remote.Reply{}, err
		}
	}
	body, info, header, err := b.client.GetObject(ctx, b.name, key, opts)
	if err != nil {
		return remote.Reply{}, err
	}
	return remote.Reply{Body: body, ContentRange: header.Get("Content-Range"), ETag: info.ETag}, nil
}

func (b *bucket) Head(ctx context.Context, key string) (remote.Head, error) {
	info, err := b.client.StatObject(ctx, b.name, key, miniogo.StatObjectOptions{})
	if err != nil {
		return remote.Head{}, err
	}
	return remote.Head{
		Info:    objstore.Info{Key: key, Size: info.Size, Modified: info.LastModified},
		Attempt: info.Metadata.Get("X-Amz-Meta-" + remote.AttemptMeta),
	}, nil
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	return b.client.RemoveObject(ctx, b.name, key, miniogo.RemoveObjectOptions{})
}

// List does not use Core.ListObjectsV2, which takes no context.
func (b *bucket) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, bool, error) {
	page := make([]objstore.Info, 0, limit)
	opts := miniogo.ListObjectsOptions{Prefix: prefix, StartAfter: after, Recursive: true, MaxKeys: limit}
	for o := range b.client.ListObjectsIter(ctx, b.name, opts) {
		if o.Err != nil {
			return nil, false, o.Err
		}
		page = append(page, objstore.Info{Key: o.Key, Size: o.Size, Modified: o.LastModified})
		if len(page) == limit {
			return page, true, nil
		}
	}
	return page, false, ctx.Err()
}

// uploads implements remote.Uploads.
type uploads struct{ *bucket }

func (u uploads) Create(ctx context.Context, key, attempt string, withCRC bool) (string, error) {
	opts := putOptions(remote.PutRequest{Attempt: attempt})
	if withCRC {
		opts.UserMetadata["x-amz-checksum-algorithm"] = "CRC32C"
	}
	return u.client.NewMultipartUpload(ctx, u.name, key, opts)
}

func (u uploads) Part(ctx context.Context, uploadID string, number int, r remote.PutRequest) (remote.Part, error) {
	opts := miniogo.PutObjectPartOptions{Sha256Hex: r.SHA256, DisableContentSha256: true}
	if r.CRC32C != "" {
		opts.CustomHeader = http.Header{}
		opts.CustomHeader.Set(crcHeader, r.CRC32C)
	}
	part, err := u.client.PutObjectPart(ctx, u.name, r.Key, uploadID, number, r.Body, r.Size, opts)
	if err != nil {
		return remote.Part{}, err
	}
	return remote.Part{Number: number, ETag: part.ETag, CRC32C: r.CRC32C}, nil
}

func (u uploads) Complete(ctx context.Context, key, uploadID string, parts []remote.Part) error {
	done := make([]miniogo.CompletePart, len(parts))
	for i, p := range parts {
		done[i] = miniogo.CompletePart{PartNumber: p.Number, ETag: p.ETag, ChecksumCRC32C: p.CRC32C}
	}
	_, err := u.client.CompleteMultipartUpload(ctx, u.name, key, uploadID, done, miniogo.PutObjectOptions{})
	return err
}

func (u uploads) Abort(ctx context.Context, key, uploadID string) error {
	return u.client.AbortMultipartUpload(ctx, u.name, key, uploadID)
}
