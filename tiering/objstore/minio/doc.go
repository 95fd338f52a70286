// Package minio is the driver for MinIO and what speaks its protocol, by minio-go.
//
// URL: minio://host:port/bucket/prefix?secure=false&region=us-east-1&checksums=true. secure defaults to true.
// Credentials are MINIO_ACCESS_KEY and MINIO_SECRET_KEY, or MINIO_ROOT_USER and MINIO_ROOT_PASSWORD, or AWS's names.
// checksums=true adds a CRC-32C to uploads, for buckets with object lock.
//
// minio-go sends one request per call here: its retries and its own splitting into parts are off, since package remote
// does that work (see there). A payload hash is always given, because without one minio-go signs chunk by chunk over
// plain HTTP, which several stores reject.
package minio
