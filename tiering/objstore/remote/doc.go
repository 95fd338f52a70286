// Package remote makes an objstore.Store out of single HTTP requests to an S3-like service.
//
// A driver (s3, minio) contributes one request at a time, without retry, through the small ports Objects and Uploads;
// everything that is easy to get wrong is here once: a deadline for each attempt, bounded retries with a fresh reader,
// resumed and checked range reads, the multipart loop with its lost replies and its abort, and the sorting of failures.
//
// Throttling is not retried here (except between the parts of one upload): more requests would add load. The error
// says how long to wait and objstore.Limiter, which sees the whole bucket, does.
//
// Integrity is the caller's SHA-256: it signs the request, so that a store that checks signatures refuses other bytes.
// The services' own checksums are off by default, since many stores reject or mangle them; NativeChecksums turns them
// on for buckets that demand one. Conditional requests are used only for If-Match on a resumed read; an ETag is an
// opaque text.
//
// Place in the house: below the drivers s3 and minio; imports objstore only.
package remote
