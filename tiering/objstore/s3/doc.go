// Package s3 is the driver for S3 and what speaks its protocol, by aws-sdk-go-v2.
//
// URL: s3://bucket/prefix?region=…&endpoint=…&path_style=true&checksums=true. The region defaults to AWS_REGION, then
// us-east-1; the endpoint to AWS's. Credentials come from the SDK's usual chain (AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY, profiles, roles). checksums=true adds a CRC-32C to uploads, for buckets with object lock; it is
// off by default because many S3-like stores refuse it.
//
// The SDK sends one request per call here: its retries, its transfer manager and its default checksums are off, since
// package remote does that work (see there). Uploads are signed with the SHA-256 that the caller has, so the SDK does
// not hash them again.
package s3
