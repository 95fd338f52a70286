package s3

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"tidemark/tiering/objstore"
	"tidemark/tiering/objstore/remote"
)

// bucket implements remote.Objects.
type bucket struct {
	client *awss3.Client
	name   string
}

// signedWith makes the SDK sign with a known payload hash instead of reading the body for one.
func signedWith(sha256 string) func(*awss3.Options) {
	return awss3.WithAPIOptions(func(stack *middleware.Stack) error {
		known := middleware.FinalizeMiddlewareFunc("TidemarkKnownPayloadHash",
			func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
				return next.HandleFinalize(v4.SetPayloadHash(ctx, sha256), in)
			})
		return stack.Finalize.Insert(known, (*v4.ComputePayloadSHA256)(nil).ID(), middleware.Before)
	})
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func metadata(attempt string) map[string]string {
	if attempt == "" {
		return nil
	}
	return map[string]string{remote.AttemptMeta: attempt}
}

func (b *bucket) Put(ctx context.Context, r remote.PutRequest) error {
	_, err := b.client.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: &b.name, Key: &r.Key, Body: r.Body, ContentLength: &r.Size,
		Metadata: metadata(r.Attempt), ChecksumCRC32C: optional(r.CRC32C),
	}, signedWith(r.SHA256))
	return err
}

func (b *bucket) GetRange(ctx context.Context, key string, off, n int64, etag string) (remote.Reply, error) {
	out, err := b.client.GetObject(ctx, &awss3.GetObjectInput{
		Bucket: &b.name, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1)), IfMatch: optional(etag),
	})
	if err != nil {
		return remote.Reply{}, err
	}
	return remote.Reply{Body: out.Body, ContentRange: aws.ToString(out.ContentRange), ETag: aws.ToString(out.ETag)}, nil
}

func (b *bucket) Head(ctx context.Context, key string) (remote.Head, error) {
	out, err := b.client.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return remote.Head{}, err
	}
	return remote.Head{
		Info:    objstore.Info{Key: key, Size: aws.ToInt64(out.ContentLength), Modified: aws.ToTime(out.LastModified)},
		Attempt: out.Metadata[remote.AttemptMeta],
	}, nil
}

func (b *bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: &b.name, Key: &key})
	return err
}

func (b *bucket) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, bool, error) {
	out, err := b.client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{
		Bucket: &b.name, Prefix: &prefix, StartAfter: optional(after), MaxKeys: aws.Int32(int32(limit)),
	})
	if err != nil {
		return nil, false, err
	}
	page := make([]objstore.Info, 0, len(out.Contents))
	for _, o := range out.Contents {
		page = append(page, objstore.Info{Key: aws.ToString(o.Key), Size: aws.ToInt64(o.Size), Modified: aws.ToTime(o.LastModified)})
	}
	return page, aws.ToBool(out.IsTruncated), nil
}

// uploads implements remote.Uploads.
type uploads struct{ *bucket }

func (u uploads) Create(ctx context.Context, key, attempt string, withCRC bool) (string, error) {
	in := &awss3.CreateMultipartUploadInput{Bucket: &u.name, Key: &key, Metadata: metadata(attempt)}
	if withCRC {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32c
	}
	out, err := u.client.CreateMultipartUpload(ctx, in)
	if err != nil {
		return "", err
	}
	return aws.ToString(out.UploadId), nil
}

func (u uploads) Part(ctx context.Context, uploadID string, number int, r remote.PutRequest) (remote.Part, error) {
	out, err := u.client.UploadPart(ctx, &awss3.UploadPartInput{
		Bucket: &u.name, Key: &r.Key, UploadId: &uploadID, PartNumber: aws.Int32(int32(number)),
		Body: r.Body, ContentLength: &r.Size, ChecksumCRC32C: optional(r.CRC32C),
	}, signedWith(r.SHA256))
	if err != nil {
		return remote.Part{}, err
	}
	return remote.Part{Number: number, ETag: aws.ToString(out.ETag), CRC32C: r.CRC32C}, nil
}

func (u uploads) Complete(ctx context.Context, key, uploadID string, parts []remote.Part) error {
	done := make([]types.CompletedPart, len(parts))
	for i, p := range parts {
		done[i] = types.CompletedPart{PartNumber: aws.Int32(int32(p.Number)), ETag: aws.String(p.ETag), ChecksumCRC32C: optional(p.CRC32C)}
	}
	_, err := u.client.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
		Bucket: &u.name, Key: &key, UploadId: &uploadID, MultipartUpload: &types.CompletedMultipartUpload{Parts: done},
	})
	return err
}

func (u uploads) Abort(ctx context.Context, key, uploadID string) error {
	_, err := u.client.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: &u.name, Key: &key, UploadId: &uploadID})
	return err
}
